#include "nexus/compile/block_learner.h"

#include <memory>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/compile/block_accumulator.h"
#include "nexus/compile/splice_contents.h"
#include "nexus/kv/block_folder.h"
#include "nexus/kv/block_store.h"

namespace nexus::compile {
namespace {

// As long as a slow disk may need for another's fold. Whoever doesn't get the
// lock goes on without: the worst outcome is that one of two samples is lost.
constexpr int kLockTimeoutMs = 5000;

Status Check(const CompileEnvironment& environment,
             const LearnRequest& request) {
  if (environment.access == nullptr || environment.rope == nullptr ||
      environment.store == nullptr) {
    return InvalidArgumentError("learn: environment is incomplete");
  }
  if (request.tokens.empty() || request.position <= 0) {
    return InvalidArgumentError(
        "learn: " + std::to_string(request.tokens.size()) +
        " tokens at position " + std::to_string(request.position) +
        "; a block needs some, and something before it");
  }
  return Status::Ok();
}

kv::BlockMetadata MetadataFor(const CompileEnvironment& environment,
                              const LearnRequest& request) {
  return SpliceMetadata(environment.fingerprint,
                        {.tool_name = request.tool_name,
                         .schema_hash = request.schema_hash,
                         .recipe = request.recipe,
                         .tokens = request.tokens});
}

Result<llm::KvRows> ReadRows(const CompileEnvironment& environment,
                             const LearnRequest& request) {
  NEXUS_RETURN_IF_ERROR(Check(environment, request));
  return environment.access->Read(
      request.sequence, request.position,
      request.position + static_cast<llm::Position>(request.tokens.size()));
}

}  // namespace

std::string TrafficRecipeName(const schema::SchemaFrame& frame) {
  return "traffic-" + frame.family;
}

Result<LearnReport> LearnBlock(const CompileEnvironment& environment,
                               const LearnRequest& request) {
  const auto started = Clock::Monotonic().Now();
  NEXUS_ASSIGN_OR_RETURN(const llm::KvRows rows,
                         ReadRows(environment, request));
  kv::BlockStore& store = *environment.store;
  const kv::FolderLock lock(store.PathOf("learn.lock"), kLockTimeoutMs);
  const llm::KvLayout& layout = environment.access->layout();
  BlockAccumulator accumulator(layout, *environment.rope,
                               static_cast<int>(request.tokens.size()));
  kv::BlockMetadata metadata = MetadataFor(environment, request);
  const Result<std::shared_ptr<const kv::KvBlock>> newest =
      store.Find(metadata.Key(), {.expected = &environment.fingerprint});
  kv::BlockStorage storage;
  if (newest.ok()) {
    storage = (*newest)->storage();
    if (storage.k == kv::RowStorage::kQ4) {
      LearnReport unchanged;
      unchanged.reason = "4-bit keys are too coarse to take in a sample";
      return unchanged;
    }
    NEXUS_ASSIGN_OR_RETURN(
        accumulator,
        BlockAccumulator::Restore(layout, *environment.rope, **newest));
    metadata = (*newest)->metadata();
    ++metadata.generation;
  } else if (newest.status().code() != StatusCode::kNotFound &&
             newest.status().code() != StatusCode::kCorruption) {
    return newest.status();
  }
  NEXUS_RETURN_IF_ERROR(accumulator.Add(rows));
  NEXUS_ASSIGN_OR_RETURN(const AccumulatedBlock block, accumulator.Finish());
  kv::BlockContents contents =
      SpliceContents(std::move(metadata), request.tokens, layout, block);
  contents.storage = storage;
  NEXUS_ASSIGN_OR_RETURN(const auto stored,
                         store.Put(contents, {.retire_older = true}));
  LearnReport report;
  report.samples = stored->metadata().context_count;
  report.generation = stored->metadata().generation;
  report.file_bytes = stored->file_bytes();
  report.elapsed_ms = Milliseconds(Clock::Monotonic().Now() - started);
  return report;
}

Result<std::shared_ptr<const kv::KvBlock>> KeepSample(
    const CompileEnvironment& environment, const LearnRequest& request) {
  NEXUS_ASSIGN_OR_RETURN(const llm::KvRows rows,
                         ReadRows(environment, request));
  const llm::KvLayout& layout = environment.access->layout();
  BlockAccumulator accumulator(layout, *environment.rope,
                               static_cast<int>(request.tokens.size()));
  NEXUS_RETURN_IF_ERROR(accumulator.Add(rows));
  NEXUS_ASSIGN_OR_RETURN(const AccumulatedBlock block, accumulator.Finish());
  return environment.store->WritePrivate(SpliceContents(
      MetadataFor(environment, request), request.tokens, layout, block));
}

}  // namespace nexus::compile
