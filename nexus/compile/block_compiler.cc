#include "nexus/compile/block_compiler.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/compile/block_accumulator.h"
#include "nexus/compile/splice_contents.h"
#include "nexus/kv/block_writer.h"

namespace nexus::compile {
namespace {

constexpr llm::SequenceId kSequence = 0;

kv::BlockMetadata MetadataFor(const CompileEnvironment& environment,
                              const CompileJob& job,
                              const std::string& recipe) {
  return SpliceMetadata(environment.fingerprint,
                        {.tool_name = job.tool_name,
                         .schema_hash = job.schema_hash,
                         .recipe = recipe,
                         .tokens = job.tokens});
}

Status Check(const CompileEnvironment& environment,
             std::span<const CompileContext> contexts) {
  if (environment.context == nullptr || environment.access == nullptr ||
      environment.rope == nullptr || environment.store == nullptr) {
    return InvalidArgumentError("compile: environment is incomplete");
  }
  if (contexts.empty()) {
    return InvalidArgumentError("compile: no compile context given");
  }
  if (environment.context->PositionEnd(kSequence) != 0) {
    return InvalidArgumentError(
        "compile: sequence 0 of the context is not empty");
  }
  return Status::Ok();
}

// A compile context and, once it has been decoded, its cells: writing them back
// costs milliseconds where decoding costs seconds.
struct ContextCells {
  const CompileContext* context;
  bool keep;  // there is memory for the cells, and the cache gives them out
  std::optional<llm::KvRows> rows;
};

class Compiler {
 public:
  Compiler(const CompileEnvironment& environment,
           std::span<const CompileContext> contexts,
           const CompileOptions& options)
      : environment_(environment),
        options_(options),
        layout_(environment.access->layout()),
        started_(Clock::Monotonic().Now()) {
    size_t bytes_left = options.memory_bytes;
    for (const CompileContext& context : contexts) {
      const size_t size = context.tokens.size();
      longest_context_ = std::max(longest_context_, size);
      // A window cache has given up the older cells of what is longer.
      const bool is_readable =
          layout_.sliding_window == 0 ||
          size <= static_cast<size_t>(layout_.sliding_window);
      const size_t bytes = size * layout_.BytesPerToken();
      const bool keep = is_readable && bytes <= bytes_left;
      if (keep) bytes_left -= bytes;
      contexts_.push_back({&context, keep, std::nullopt});
    }
  }

  Result<CompileReport> Run(std::span<const CompileJob> jobs) {
    const std::vector<const CompileJob*> pending = SortOut(jobs);
    progress_.tokens_total = TokensFor(pending);
    Tell("");
    for (const CompileJob* job : pending) {
      const Status status = CompileTool(*job);
      environment_.context->RemoveCells(kSequence, 0, -1);
      NEXUS_RETURN_IF_ERROR(status);
    }
    report_.tokens_decoded = progress_.tokens_done;
    report_.elapsed_s = Elapsed();
    return std::move(report_);
  }

 private:
  // What is left to do: not yet stored, not given twice, and fit for the
  // context.
  std::vector<const CompileJob*> SortOut(std::span<const CompileJob> jobs) {
    progress_.total = static_cast<int>(jobs.size());
    std::vector<const CompileJob*> pending;
    std::vector<Sha256Digest> seen;
    const auto room =
        static_cast<size_t>(environment_.context->options().context_tokens);
    for (const CompileJob& job : jobs) {
      const kv::BlockKey key =
          MetadataFor(environment_, job, options_.recipe).Key();
      const bool is_repeated =
          std::find(seen.begin(), seen.end(), key.content) != seen.end();
      if (job.tokens.empty()) {
        Fail(job, InvalidArgumentError("no tokens to compile"));
      } else if (longest_context_ + job.tokens.size() > room) {
        Fail(job, ResourceExhaustedError(
                      std::to_string(job.tokens.size()) +
                      " tokens behind a compile context of " +
                      std::to_string(longest_context_) +
                      " do not fit a context of " + std::to_string(room) +
                      "; give a larger one"));
      } else if (is_repeated) {
        ++report_.already_present;
        ++progress_.done;
      } else {
        seen.push_back(key.content);
        const Result<kv::BlockStorage> storage = Stored(key);
        if (storage.status().code() == StatusCode::kIncompatible) {
          // Of another version of Nexus: Put wouldn't touch it.
          Fail(job, storage.status());
        } else if (storage.ok() && !options_.recompile) {
          ++report_.already_present;
          ++progress_.done;
          if (*storage != options_.storage) ++report_.stored_otherwise;
        } else {
          pending.push_back(&job);
        }
      }
    }
    return pending;
  }

  // Opened and verified, not only seen by name: a damaged file must be compiled
  // again.
  Result<kv::BlockStorage> Stored(const kv::BlockKey& key) {
    NEXUS_ASSIGN_OR_RETURN(
        const auto block,
        environment_.store->Find(key, {.expected = &environment_.fingerprint}));
    return block->storage();
  }

  int64_t TokensFor(std::span<const CompileJob* const> pending) const {
    if (pending.empty()) return 0;
    size_t tokens = 0;
    for (const CompileJob* job : pending) {
      tokens += job->tokens.size() * contexts_.size();
    }
    for (const ContextCells& cells : contexts_) {
      tokens +=
          cells.context->tokens.size() * (cells.keep ? 1 : pending.size());
    }
    return static_cast<int64_t>(tokens);
  }

  Status CompileTool(const CompileJob& job) {
    BlockAccumulator accumulator(layout_, *environment_.rope,
                                 static_cast<int>(job.tokens.size()));
    for (ContextCells& cells : contexts_) {
      NEXUS_RETURN_IF_ERROR(PlaceContext(cells));
      Tell(cells.context->name + ": " + job.tool_name);
      NEXUS_RETURN_IF_ERROR(
          DecodeTool(job, cells.context->tokens.size(), &accumulator));
    }
    return Store(job, accumulator);
  }

  // Afterwards the sequence holds the context and nothing else.
  Status PlaceContext(ContextCells& cells) {
    NEXUS_RETURN_IF_ERROR(CheckCancel());
    const std::vector<llm::Token>& tokens = cells.context->tokens;
    environment_.context->RemoveCells(kSequence, 0, -1);
    if (tokens.empty()) return Status::Ok();
    if (cells.rows) {
      return environment_.access->WriteRows(kSequence, 0, *cells.rows).status();
    }
    Tell(cells.context->name);
    NEXUS_RETURN_IF_ERROR(
        environment_.context->Decode(tokens, 0, kSequence, llm::Logits::kNone));
    const auto end = static_cast<llm::Position>(tokens.size());
    progress_.tokens_done += end;
    if (cells.keep) {
      NEXUS_ASSIGN_OR_RETURN(cells.rows,
                             environment_.access->Read(kSequence, 0, end));
    }
    return Status::Ok();
  }

  Status DecodeTool(const CompileJob& job, size_t context_size,
                    BlockAccumulator* accumulator) {
    const std::span<const llm::Token> tokens = job.tokens;
    const auto begin = static_cast<llm::Position>(context_size);
    // Cells that leave the window can't be read any more: read each piece
    // before the next one pushes it out.
    size_t longest_piece = tokens.size();
    if (layout_.sliding_window > 0) {
      longest_piece =
          std::min(longest_piece, static_cast<size_t>(layout_.sliding_window));
    }
    for (size_t done = 0; done < tokens.size();) {
      NEXUS_RETURN_IF_ERROR(CheckCancel());
      const size_t size = std::min(longest_piece, tokens.size() - done);
      const auto first = begin + static_cast<llm::Position>(done);
      const auto last = first + static_cast<llm::Position>(size);
      NEXUS_RETURN_IF_ERROR(environment_.context->Decode(
          tokens.subspan(done, size), first, kSequence, llm::Logits::kNone));
      NEXUS_ASSIGN_OR_RETURN(const llm::KvRows rows,
                             environment_.access->Read(kSequence, first, last));
      NEXUS_RETURN_IF_ERROR(accumulator->Add(rows));
      done += size;
      progress_.tokens_done += static_cast<int64_t>(size);
    }
    return Status::Ok();
  }

  Status Store(const CompileJob& job, const BlockAccumulator& accumulator) {
    NEXUS_ASSIGN_OR_RETURN(const AccumulatedBlock block, accumulator.Finish());
    kv::BlockContents contents =
        SpliceContents(MetadataFor(environment_, job, options_.recipe),
                       job.tokens, layout_, block);
    contents.storage = options_.storage;
    NEXUS_ASSIGN_OR_RETURN(
        const auto stored,
        environment_.store->Put(contents, {.replace = options_.recompile}));
    report_.bytes_written += stored->file_bytes();
    ++report_.compiled;
    ++progress_.done;
    Tell(job.tool_name);
    return Status::Ok();
  }

  void Fail(const CompileJob& job, Status status) {
    report_.failures.push_back({job.tool_name, std::move(status)});
    ++progress_.done;
  }

  Status CheckCancel() const {
    if (options_.cancel == nullptr || !options_.cancel->load()) {
      return Status::Ok();
    }
    return CancelledError("compile: stopped after " +
                          std::to_string(report_.compiled) +
                          " tools; what is done is kept");
  }

  double Elapsed() const {
    return Milliseconds(Clock::Monotonic().Now() - started_) / 1000;
  }

  void Tell(const std::string& current) {
    if (!options_.progress) return;
    progress_.current = current;
    progress_.elapsed_s = Elapsed();
    progress_.eta_s = -1;
    if (progress_.tokens_done > 0) {
      progress_.eta_s =
          progress_.elapsed_s *
          static_cast<double>(progress_.tokens_total - progress_.tokens_done) /
          static_cast<double>(progress_.tokens_done);
    }
    options_.progress(progress_);
  }

  const CompileEnvironment& environment_;
  std::vector<ContextCells> contexts_;
  const CompileOptions& options_;
  const llm::KvLayout& layout_;
  const std::chrono::nanoseconds started_;
  size_t longest_context_ = 0;
  CompileProgress progress_;
  CompileReport report_;
};

}  // namespace

Result<CompileReport> CompileBlocks(const CompileEnvironment& environment,
                                    std::span<const CompileContext> contexts,
                                    std::span<const CompileJob> jobs,
                                    const CompileOptions& options) {
  NEXUS_RETURN_IF_ERROR(Check(environment, contexts));
  return Compiler(environment, contexts, options).Run(jobs);
}

kv::BlockContents VariantContents(const CompileEnvironment& environment,
                                  const VariantRequest& request,
                                  const llm::KvRows& rows) {
  kv::BlockContents contents;
  contents.metadata.fingerprint = environment.fingerprint;
  contents.metadata.kind = kv::BlockKind::kVariant;
  contents.metadata.content =
      kv::VariantContent(request.preceding, request.tokens);
  contents.metadata.schema_hash = request.schema_hash;
  contents.metadata.tool_name = request.tool_name;
  contents.metadata.position =
      static_cast<llm::Position>(request.preceding.size());
  contents.tokens = request.tokens;
  contents.layers = environment.access->layout().layers;
  contents.k = rows.k;
  contents.v = rows.v;
  return contents;
}

Result<std::shared_ptr<const kv::KvBlock>> MakeVariant(
    const CompileEnvironment& environment, const VariantRequest& request) {
  if (environment.access == nullptr || environment.store == nullptr) {
    return InvalidArgumentError("variant: environment is incomplete");
  }
  const auto begin = static_cast<llm::Position>(request.preceding.size());
  const auto end = begin + static_cast<llm::Position>(request.tokens.size());
  NEXUS_ASSIGN_OR_RETURN(
      const llm::KvRows rows,
      environment.access->Read(request.sequence, begin, end));
  return environment.store->Put(VariantContents(environment, request, rows));
}

}  // namespace nexus::compile
