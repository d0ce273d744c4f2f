#include "nexus/compile/block_compiler.h"

#include <algorithm>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/compile/block_accumulator.h"
#include "nexus/kv/block_writer.h"

namespace nexus::compile {
namespace {

constexpr llm::SequenceId kSequence = 0;

kv::BlockMetadata MetadataFor(const CompileEnvironment& environment,
                              const CompileJob& job,
                              const std::string& recipe) {
  kv::BlockMetadata metadata;
  metadata.fingerprint = environment.fingerprint;
  metadata.content = kv::SpliceContent(job.tokens, recipe);
  metadata.schema_hash = job.schema_hash;
  metadata.recipe = recipe;
  metadata.tool_name = job.tool_name;
  return metadata;
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

// A tool being compiled: its place in the caller's list and its running mean.
struct Work {
  const CompileJob* job;
  std::unique_ptr<BlockAccumulator> accumulator;
};

class Compiler {
 public:
  Compiler(const CompileEnvironment& environment,
           std::span<const CompileContext> contexts,
           const CompileOptions& options)
      : environment_(environment),
        contexts_(contexts),
        options_(options),
        layout_(environment.access->layout()),
        started_(Clock::Monotonic().Now()) {
    for (const CompileContext& context : contexts) {
      longest_context_ = std::max(longest_context_, context.tokens.size());
      context_tokens_ += static_cast<int64_t>(context.tokens.size());
    }
  }

  Result<CompileReport> Run(std::span<const CompileJob> jobs) {
    std::vector<const CompileJob*> pending = SortOut(jobs);
    const std::vector<std::vector<const CompileJob*>> groups =
        Group(std::move(pending));
    progress_.tokens_total = TokensFor(groups);
    Tell("");
    for (const std::vector<const CompileJob*>& group : groups) {
      const Status status = CompileGroup(group);
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
      } else if (is_repeated || (!options_.recompile && IsStored(key))) {
        ++report_.already_present;
        ++progress_.done;
      } else {
        seen.push_back(key.content);
        pending.push_back(&job);
      }
    }
    return pending;
  }

  // Opened and verified, not only seen by name: a damaged file must be compiled
  // again.
  bool IsStored(const kv::BlockKey& key) {
    return environment_.store->Contains(key) &&
           environment_.store
               ->Find(key, {.expected = &environment_.fingerprint})
               .ok();
  }

  std::vector<std::vector<const CompileJob*>> Group(
      std::vector<const CompileJob*> pending) const {
    std::vector<std::vector<const CompileJob*>> groups;
    size_t bytes = 0;
    for (const CompileJob* job : pending) {
      const size_t need = BlockAccumulator::BytesFor(
          layout_, static_cast<int>(job->tokens.size()));
      if (groups.empty() || bytes + need > options_.memory_bytes) {
        groups.emplace_back();
        bytes = 0;
      }
      groups.back().push_back(job);
      bytes += need;
    }
    return groups;
  }

  // A window cache gives up the context's older cells while a tool is decoded
  // behind it, so there each tool needs the context anew.
  bool ContextIsSpent() const { return layout_.sliding_window > 0; }

  int64_t TokensFor(
      const std::vector<std::vector<const CompileJob*>>& groups) const {
    int64_t tokens = 0;
    for (const std::vector<const CompileJob*>& group : groups) {
      const auto repeats =
          ContextIsSpent() ? static_cast<int64_t>(group.size()) : int64_t{1};
      tokens += context_tokens_ * repeats;
      for (const CompileJob* job : group) {
        tokens += static_cast<int64_t>(job->tokens.size() * contexts_.size());
      }
    }
    return tokens;
  }

  Status CompileGroup(const std::vector<const CompileJob*>& group) {
    std::vector<Work> works;
    for (const CompileJob* job : group) {
      works.push_back({job, std::make_unique<BlockAccumulator>(
                                layout_, *environment_.rope,
                                static_cast<int>(job->tokens.size()))});
    }
    for (const CompileContext& context : contexts_) {
      const bool is_last = &context == &contexts_.back();
      environment_.context->RemoveCells(kSequence, 0, -1);
      for (Work& work : works) {
        NEXUS_RETURN_IF_ERROR(DecodeContext(context));
        Tell(context.name + ": " + work.job->tool_name);
        NEXUS_RETURN_IF_ERROR(DecodeTool(context, work));
        if (is_last) NEXUS_RETURN_IF_ERROR(Store(work));
      }
    }
    return Status::Ok();
  }

  // Does nothing when the context's cells are already there, and nothing else.
  Status DecodeContext(const CompileContext& context) {
    NEXUS_RETURN_IF_ERROR(CheckCancel());
    const auto end = static_cast<llm::Position>(context.tokens.size());
    if (ContextIsSpent()) environment_.context->RemoveCells(kSequence, 0, -1);
    if (end > 0 && environment_.context->PositionEnd(kSequence) == end) {
      return Status::Ok();
    }
    Tell(context.name);
    NEXUS_RETURN_IF_ERROR(environment_.context->Decode(
        context.tokens, 0, kSequence, llm::Logits::kNone));
    progress_.tokens_done += end;
    return Status::Ok();
  }

  Status DecodeTool(const CompileContext& context, Work& work) {
    const std::span<const llm::Token> tokens = work.job->tokens;
    const auto begin = static_cast<llm::Position>(context.tokens.size());
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
      NEXUS_RETURN_IF_ERROR(work.accumulator->Add(rows));
      done += size;
      progress_.tokens_done += static_cast<int64_t>(size);
    }
    if (!environment_.context->RemoveCells(kSequence, begin, -1)) {
      return InternalError("compile: the engine did not remove a tool's cells");
    }
    return Status::Ok();
  }

  Status Store(Work& work) {
    NEXUS_ASSIGN_OR_RETURN(const AccumulatedBlock block,
                           work.accumulator->Finish());
    work.accumulator.reset();  // the memory is free for the next group
    kv::BlockContents contents;
    contents.metadata = MetadataFor(environment_, *work.job, options_.recipe);
    contents.metadata.context_count = block.context_count;
    contents.tokens = work.job->tokens;
    contents.layers = layout_.layers;
    contents.k = block.k;
    contents.v = block.v;
    contents.sensitivity = block.sensitivity;
    if (options_.recompile) {
      const Status removed =
          environment_.store->Remove(contents.metadata.Key());
      if (!removed.ok() && removed.code() != StatusCode::kNotFound) {
        return removed;
      }
    }
    NEXUS_ASSIGN_OR_RETURN(const auto stored,
                           environment_.store->Put(contents));
    report_.bytes_written += stored->file_bytes();
    ++report_.compiled;
    ++progress_.done;
    Tell(work.job->tool_name);
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
  const std::span<const CompileContext> contexts_;
  const CompileOptions& options_;
  const llm::KvLayout& layout_;
  const std::chrono::nanoseconds started_;
  size_t longest_context_ = 0;
  int64_t context_tokens_ = 0;  // of all contexts
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
  kv::BlockContents contents;
  contents.metadata.fingerprint = environment.fingerprint;
  contents.metadata.kind = kv::BlockKind::kVariant;
  contents.metadata.content =
      kv::VariantContent(request.preceding, request.tokens);
  contents.metadata.schema_hash = request.schema_hash;
  contents.metadata.tool_name = request.tool_name;
  contents.metadata.position = begin;
  contents.tokens = request.tokens;
  contents.layers = environment.access->layout().layers;
  contents.k = rows.k;
  contents.v = rows.v;
  return environment.store->Put(contents);
}

}  // namespace nexus::compile
