#include "nexus/engine/list_compile.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/compile/block_accumulator.h"
#include "nexus/compile/list_tools.h"
#include "nexus/compile/splice_contents.h"
#include "nexus/kv/block_writer.h"

namespace nexus::engine {
namespace {

constexpr llm::SequenceId kSequence = 0;
constexpr std::array<std::string_view, 3> kNeighbourNames = {"alone", "generic",
                                                             "given"};
// Running means are kept in float32, so a token costs twice its cells.
constexpr size_t kMostAccumulatorBytes = size_t{1} << 30;

using llm::Token;

// The same order on every machine: std::shuffle is free to differ.
std::vector<size_t> Shuffled(size_t count, uint64_t seed) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  uint64_t state = seed * 0x9E3779B97F4A7C15ULL + 1;
  for (size_t i = count; i > 1; --i) {
    // xorshift64*, Vigna 2016.
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    std::swap(order[i - 1], order[(state * 0x2545F4914F6CDD1DULL >> 33) % i]);
  }
  return order;
}

Result<std::vector<compile::CompileJob>> JobsFor(
    const Engine& engine, std::span<const schema::ToolSchema> tools) {
  std::vector<compile::CompileJob> jobs;
  for (const schema::ToolSchema& tool : tools) {
    compile::CompileJob job;
    job.tool_name = schema::ToolId(tool);
    job.schema_hash = ToHex(schema::SchemaHash(tool));
    NEXUS_ASSIGN_OR_RETURN(job.tokens, engine.planner().ListToolTokens(tool));
    jobs.push_back(std::move(job));
  }
  return jobs;
}

// Head, frame prefix and `before`, as a list of them would begin.
Result<std::vector<Token>> ListBeginning(
    const Engine& engine, std::span<const schema::ToolSchema> before) {
  // A list can't be empty; without neighbours any tool shows where it begins.
  const std::span<const schema::ToolSchema> shown =
      before.empty() ? std::span(compile::ListTools()).first(1) : before;
  NEXUS_ASSIGN_OR_RETURN(
      const PromptPlan plan,
      engine.planner().PlanListBlock(compile::kDefaultSystemPrompt, shown));
  size_t end = plan.pieces.front().end;
  if (!before.empty()) {
    for (const PlanPiece& piece : plan.pieces) {
      if (piece.is_tool()) end = piece.end;
    }
  }
  std::vector<Token> tokens = plan.history;
  tokens.insert(tokens.end(), plan.block.begin(),
                plan.block.begin() + static_cast<int>(end));
  return tokens;
}

Result<std::vector<compile::CompileContext>> ContextsFor(
    const Engine& engine, const CompileListOptions& options) {
  std::vector<compile::CompileContext> contexts;
  if (options.neighbours == ListNeighbours::kNone) {
    compile::CompileContext context{"list of one", {}};
    NEXUS_ASSIGN_OR_RETURN(context.tokens, ListBeginning(engine, {}));
    contexts.push_back(std::move(context));
    return contexts;
  }
  for (const std::vector<int>& set :
       compile::ListToolSets().first(static_cast<size_t>(options.samples))) {
    std::vector<schema::ToolSchema> before;
    compile::CompileContext context{"list behind", {}};
    for (const int tool : set) {
      before.push_back(compile::ListTools()[static_cast<size_t>(tool)]);
      context.name += " " + before.back().name;
    }
    NEXUS_ASSIGN_OR_RETURN(context.tokens, ListBeginning(engine, before));
    contexts.push_back(std::move(context));
  }
  return contexts;
}

// Decodes shuffled lists of the given tools and takes every tool in them.
class ShuffleCompiler {
 public:
  ShuffleCompiler(const compile::CompileEnvironment& environment,
                  const CompileListOptions& options, std::string recipe)
      : environment_(environment),
        options_(options),
        recipe_(std::move(recipe)),
        layout_(environment.access->layout()),
        started_(Clock::Monotonic().Now()) {}

  // `fillers` stand in lists that would be short otherwise; no block is made of
  // them.
  Result<compile::CompileReport> Run(
      std::span<const Token> beginning,
      std::span<const compile::CompileJob> jobs,
      std::span<const std::vector<Token>> fillers) {
    progress_.total = static_cast<int>(jobs.size());
    for (size_t first = 0; first < jobs.size();) {
      size_t bytes = 0;
      size_t end = first;
      while (end < jobs.size() &&
             (end == first || bytes < kMostAccumulatorBytes)) {
        bytes += jobs[end++].tokens.size() * layout_.BytesPerToken() * 2;
      }
      NEXUS_RETURN_IF_ERROR(
          CompileGroup(beginning, jobs.subspan(first, end - first), fillers));
      first = end;
    }
    report_.tokens_decoded = progress_.tokens_done;
    report_.elapsed_s = Elapsed();
    return std::move(report_);
  }

 private:
  Status CompileGroup(std::span<const Token> beginning,
                      std::span<const compile::CompileJob> jobs,
                      std::span<const std::vector<Token>> fillers) {
    std::vector<compile::BlockAccumulator> accumulators;
    for (const compile::CompileJob& job : jobs) {
      accumulators.emplace_back(layout_, *environment_.rope,
                                static_cast<int>(job.tokens.size()));
    }
    const size_t count = jobs.size() + fillers.size();
    for (int sample = 0; sample < options_.samples; ++sample) {
      size_t in_list = 0;
      Restart();
      for (const size_t i : Shuffled(count, static_cast<uint64_t>(sample))) {
        const std::vector<Token>& tokens =
            i < jobs.size() ? jobs[i].tokens : fillers[i - jobs.size()];
        if (in_list == static_cast<size_t>(options_.list_tools) ||
            end_ + tokens.size() > Room()) {
          in_list = 0;
          Restart();
        }
        if (in_list == 0) {
          NEXUS_RETURN_IF_ERROR(Decode(beginning, nullptr));
        }
        ++in_list;
        if (i < jobs.size()) Tell(jobs[i].tool_name);
        NEXUS_RETURN_IF_ERROR(
            Decode(tokens, i < jobs.size() ? &accumulators[i] : nullptr));
      }
    }
    Restart();
    for (size_t i = 0; i < jobs.size(); ++i) {
      NEXUS_RETURN_IF_ERROR(Store(jobs[i], accumulators[i]));
    }
    return Status::Ok();
  }

  void Restart() {
    environment_.context->RemoveCells(kSequence, 0, -1);
    end_ = 0;
  }

  size_t Room() const {
    return static_cast<size_t>(environment_.context->options().context_tokens);
  }

  Status Decode(std::span<const Token> tokens,
                compile::BlockAccumulator* accumulator) {
    // Cells that leave a sliding window can't be read any more.
    size_t longest = tokens.size();
    if (layout_.sliding_window > 0) {
      longest = std::min(longest, static_cast<size_t>(layout_.sliding_window));
    }
    for (size_t done = 0; done < tokens.size();) {
      if (options_.cancel != nullptr && options_.cancel->load()) {
        Restart();
        return CancelledError("compile: stopped before the lists were whole");
      }
      const size_t size = std::min(longest, tokens.size() - done);
      const auto first = static_cast<llm::Position>(end_);
      NEXUS_RETURN_IF_ERROR(environment_.context->Decode(
          tokens.subspan(done, size), first, kSequence, llm::Logits::kNone));
      done += size;
      end_ += size;
      progress_.tokens_done += static_cast<int64_t>(size);
      if (accumulator == nullptr) continue;
      NEXUS_ASSIGN_OR_RETURN(
          const llm::KvRows rows,
          environment_.access->Read(kSequence, first,
                                    static_cast<llm::Position>(end_)));
      NEXUS_RETURN_IF_ERROR(accumulator->Add(rows));
    }
    return Status::Ok();
  }

  Status Store(const compile::CompileJob& job,
               const compile::BlockAccumulator& accumulator) {
    NEXUS_ASSIGN_OR_RETURN(const compile::AccumulatedBlock block,
                           accumulator.Finish());
    const kv::BlockContents contents = compile::SpliceContents(
        compile::SpliceMetadata(environment_.fingerprint,
                                {.tool_name = job.tool_name,
                                 .schema_hash = job.schema_hash,
                                 .recipe = recipe_,
                                 .tokens = job.tokens}),
        job.tokens, layout_, block);
    NEXUS_ASSIGN_OR_RETURN(
        const auto stored,
        environment_.store->Put(contents, {.replace = options_.recompile}));
    report_.bytes_written += stored->file_bytes();
    ++report_.compiled;
    ++progress_.done;
    return Status::Ok();
  }

  double Elapsed() const {
    return Milliseconds(Clock::Monotonic().Now() - started_) / 1000;
  }

  void Tell(const std::string& current) {
    if (!options_.progress) return;
    progress_.current = current;
    progress_.elapsed_s = Elapsed();
    progress_.eta_s = -1;
    options_.progress(progress_);
  }

  const compile::CompileEnvironment& environment_;
  const CompileListOptions& options_;
  const std::string recipe_;
  const llm::KvLayout& layout_;
  const std::chrono::nanoseconds started_;
  size_t end_ = 0;  // tokens in the sequence
  compile::CompileProgress progress_;
  compile::CompileReport report_;
};

Status CheckOptions(const CompileListOptions& options) {
  const int most = options.neighbours == ListNeighbours::kGeneric
                       ? static_cast<int>(compile::ListToolSets().size())
                       : 64;
  if (options.samples < 1 || options.samples > most) {
    return InvalidArgumentError(
        "compile list: " + std::to_string(options.samples) +
        " samples asked for, expected 1 to " + std::to_string(most));
  }
  if (options.list_tools < 2) {
    return InvalidArgumentError("compile list: lists of " +
                                std::to_string(options.list_tools) +
                                " tools, expected 2 or more");
  }
  return Status::Ok();
}

}  // namespace

std::string_view ListNeighboursName(ListNeighbours neighbours) {
  return kNeighbourNames[static_cast<size_t>(neighbours)];
}

std::optional<ListNeighbours> ParseListNeighbours(std::string_view name) {
  for (size_t i = 0; i < kNeighbourNames.size(); ++i) {
    if (kNeighbourNames[i] == name) return static_cast<ListNeighbours>(i);
  }
  return std::nullopt;
}

std::string ListRecipeName(const Engine& engine,
                           std::span<const schema::ToolSchema> tools,
                           const CompileListOptions& options) {
  Sha256 hash;
  hash.Update(compile::kDefaultSystemPrompt);
  int samples = options.samples;
  if (options.neighbours == ListNeighbours::kNone) {
    samples = 1;
  } else {
    for (const std::string_view text : compile::ListToolTexts()) {
      hash.Update(text);
    }
  }
  if (options.neighbours == ListNeighbours::kGiven) {
    hash.Update(std::to_string(options.list_tools));
    for (const schema::ToolSchema& tool : tools) {
      hash.Update(schema::ModelText(tool));
    }
  }
  return "list-" + engine.planner().frame().family + "-" +
         std::string(ListNeighboursName(options.neighbours)) + "-" +
         std::to_string(samples) + "-" + ToHex(hash.Finish()).substr(0, 8);
}

Result<compile::CompileReport> CompileList(
    const Engine& engine, std::span<const schema::ToolSchema> tools,
    const CompileListOptions& options) {
  NEXUS_RETURN_IF_ERROR(CheckOptions(options));
  NEXUS_RETURN_IF_ERROR(engine.splice_status());
  NEXUS_RETURN_IF_ERROR(engine.store_status());
  NEXUS_ASSIGN_OR_RETURN(const std::vector<compile::CompileJob> jobs,
                         JobsFor(engine, tools));
  const std::string recipe = ListRecipeName(engine, tools, options);
  const kv::Fingerprint& fingerprint =
      engine.fingerprint(kv::BlockKind::kSplice);
  const auto is_stored = [&](const compile::CompileJob& job) {
    const kv::BlockKey key = {.fingerprint = fingerprint.Digest(),
                              .kind = kv::BlockKind::kSplice,
                              .content = kv::SpliceContent(job.tokens, recipe)};
    return engine.store()->Find(key, {.expected = &fingerprint}).ok();
  };
  if (!options.recompile && std::all_of(jobs.begin(), jobs.end(), is_stored)) {
    compile::CompileReport nothing_to_do;
    nothing_to_do.already_present = static_cast<int>(jobs.size());
    return nothing_to_do;
  }
  NEXUS_ASSIGN_OR_RETURN(auto context,
                         engine.NewContext(engine.options().context_tokens));
  NEXUS_ASSIGN_OR_RETURN(auto access, llm::KvAccess::Create(context.get()));
  const compile::CompileEnvironment environment = engine.CompileEnvironmentFor(
      kv::BlockKind::kSplice, context.get(), access.get());
  if (options.neighbours != ListNeighbours::kGiven) {
    NEXUS_ASSIGN_OR_RETURN(const std::vector<compile::CompileContext> contexts,
                           ContextsFor(engine, options));
    compile::CompileOptions compile_options;
    compile_options.recipe = recipe;
    compile_options.recompile = options.recompile;
    compile_options.progress = options.progress;
    compile_options.cancel = options.cancel;
    return compile::CompileBlocks(environment, contexts, jobs, compile_options);
  }
  std::vector<std::vector<Token>> fillers;
  constexpr size_t kShortList = 6;
  for (size_t i = 0; jobs.size() + i < kShortList; ++i) {
    NEXUS_ASSIGN_OR_RETURN(
        std::vector<Token> tokens,
        engine.planner().ListToolTokens(compile::ListTools()[i]));
    fillers.push_back(std::move(tokens));
  }
  NEXUS_ASSIGN_OR_RETURN(const std::vector<Token> beginning,
                         ListBeginning(engine, {}));
  const auto longest = std::max_element(
      jobs.begin(), jobs.end(), [](const auto& a, const auto& b) {
        return a.tokens.size() < b.tokens.size();
      });
  const auto room = static_cast<size_t>(engine.options().context_tokens);
  if (beginning.size() + longest->tokens.size() > room) {
    return ResourceExhaustedError(longest->tool_name + ": " +
                                  std::to_string(longest->tokens.size()) +
                                  " tokens don't fit a context of " +
                                  std::to_string(room) + "; give a larger one");
  }
  return ShuffleCompiler(environment, options, recipe)
      .Run(beginning, jobs, fillers);
}

ListBlockFinder::ListBlockFinder(const Engine* engine, std::string recipe)
    : engine_(engine), recipe_(std::move(recipe)) {
  if (!recipe_.empty()) return;
  auto infos = engine_->store()->List();
  if (!infos.ok()) return;
  const std::string family = "list-" + engine_->planner().frame().family + "-";
  std::stable_sort(infos->begin(), infos->end(),
                   [](const kv::BlockInfo& a, const kv::BlockInfo& b) {
                     return a.context_count > b.context_count;
                   });
  for (const kv::BlockInfo& info : *infos) {
    if (info.kind == kv::BlockKind::kSplice &&
        info.recipe.starts_with(family)) {
      recipes_[info.schema_hash].push_back(info.recipe);
    }
  }
}

Result<std::shared_ptr<const kv::KvBlock>> ListBlockFinder::Find(
    std::span<const Token> tokens, const PlanPiece& piece) const {
  const kv::Fingerprint& fingerprint =
      engine_->fingerprint(kv::BlockKind::kSplice);
  std::vector<std::string> candidates;
  if (!recipe_.empty()) {
    candidates.push_back(recipe_);
  } else if (const auto found = recipes_.find(piece.schema_hash);
             found != recipes_.end()) {
    candidates = found->second;
  }
  Status damaged;
  for (const std::string& recipe : candidates) {
    const kv::BlockKey key = {.fingerprint = fingerprint.Digest(),
                              .kind = kv::BlockKind::kSplice,
                              .content = kv::SpliceContent(tokens, recipe)};
    if (!engine_->store()->Contains(key)) continue;
    auto block = engine_->store()->Find(key, {.expected = &fingerprint});
    if (block.ok()) return block;
    if (damaged.ok()) damaged = block.status();
  }
  if (!damaged.ok()) return damaged;
  return NotFoundError("splice: no block of '" + piece.tool_name +
                       "' compiled for lists");
}

}  // namespace nexus::engine
