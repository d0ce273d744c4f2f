#include "nexus/kv/splicer.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "nexus/base/clock.h"
#include "nexus/kv/key_rotator.h"
#include "nexus/kv/row_convert.h"

namespace nexus::kv {
namespace {

// Rows of a mapped block on their way to the target position. `rotator` is null
// for variants, whose keys are there already and which are stored as cached.
// Encoded rows are decoded a piece at a time and rounded once, after the
// rotation.
class BlockRowSource : public llm::KvRowSource {
 public:
  BlockRowSource(const KvBlock& block, const KeyRotator* rotator)
      : block_(block), rotator_(rotator) {}

  void FillK(size_t layer, int token, int count, void* out) override {
    const size_t stride = block_.KStrideBytes(layer);
    if (rotator_ == nullptr) {
      std::memcpy(out, block_.KRow(layer, token),
                  stride * static_cast<size_t>(count));
      return;
    }
    auto* to = static_cast<uint8_t*>(out);
    const llm::KvLayerShape& shape = block_.layers()[layer];
    if (block_.storage(layer).k != RowStorage::kAsCached) {
      decoded_.resize(shape.k_elements * static_cast<size_t>(count));
      block_.ReadK(layer, token, count, decoded_.data());
      rotated_.resize(shape.k_elements);
      const float* row = decoded_.data();
      for (int i = token; i < token + count; ++i, to += stride) {
        rotator_->Rotate(layer, i, row, rotated_.data());
        RowsFromF32(shape.k_type, rotated_.data(), shape.k_elements, to);
        row += shape.k_elements;
      }
      return;
    }
    const bool is_f16 = shape.k_type == llm::KvType::kF16;
    for (int i = token; i < token + count; ++i, to += stride) {
      const uint8_t* from = block_.KRow(layer, i);
      if (is_f16) {
        rotator_->Rotate(layer, i, reinterpret_cast<const uint16_t*>(from),
                         reinterpret_cast<uint16_t*>(to));
      } else {
        rotator_->Rotate(layer, i, reinterpret_cast<const float*>(from),
                         reinterpret_cast<float*>(to));
      }
    }
  }

  const void* VRow(size_t layer, int token) override {
    if (block_.storage(layer).v == RowStorage::kAsCached) {
      return block_.VRow(layer, token);
    }
    // A write asks for no more than a piece at a time.
    const int count =
        std::min(llm::kWritePieceTokens, block_.token_count() - token);
    const llm::KvLayerShape& shape = block_.layers()[layer];
    const size_t elements = shape.v_elements * static_cast<size_t>(count);
    decoded_.resize(elements);
    block_.ReadV(layer, token, count, decoded_.data());
    v_rows_.resize(elements * llm::KvElementBytes(shape.v_type));
    RowsFromF32(shape.v_type, decoded_.data(), elements, v_rows_.data());
    return v_rows_.data();
  }
  size_t VStrideBytes(size_t layer) override {
    return block_.VStrideBytes(layer);
  }
  size_t byte_count() const {
    return (decoded_.size() + rotated_.size()) * sizeof(float) + v_rows_.size();
  }

 private:
  const KvBlock& block_;
  const KeyRotator* rotator_;
  std::vector<float> decoded_;
  std::vector<float> rotated_;   // one row
  std::vector<uint8_t> v_rows_;  // in the layer's type
};

std::string BlockName(const KvBlock& block) { return "block " + block.path(); }

Status CheckPlan(const KvBlock& block, const RecomputePlan& plan) {
  int next = 0;
  for (const PlanRun& run : plan.runs) {
    if (run.begin != next || run.end <= run.begin) break;
    next = run.end;
  }
  if (next == block.token_count() &&
      (plan.runs.empty() || plan.runs.back().end == next)) {
    return Status::Ok();
  }
  return InvalidArgumentError(BlockName(block) + ": plan covers " +
                              std::to_string(next) + " tokens, block has " +
                              std::to_string(block.token_count()));
}

Status CheckFit(const llm::Context& context, const llm::KvAccess& access,
                const llm::RopeSpec& rope, const KvBlock& block,
                const SpliceOptions& options) {
  const std::vector<llm::KvLayerShape>& layers = access.layout().layers;
  if (!std::equal(layers.begin(), layers.end(), block.layers().begin(),
                  block.layers().end())) {
    return IncompatibleError(BlockName(block) + ": " +
                             std::to_string(block.layers().size()) +
                             " layers that differ in shape or type from the "
                             "context's " +
                             std::to_string(layers.size()));
  }
  if (block.kind() == BlockKind::kSplice &&
      rope.layers.size() != layers.size()) {
    return InvalidArgumentError(
        "RoPE of " + std::to_string(rope.layers.size()) +
        " layers for a context of " + std::to_string(layers.size()));
  }
  for (size_t i = 0; i < rope.layers.size(); ++i) {
    const llm::LayerRope& layer = rope.layers[i];
    if (block.kind() == BlockKind::kSplice &&
        size_t{layer.head_count} * layer.head_dim != layers[i].k_elements) {
      return InvalidArgumentError(
          "RoPE of layer " + std::to_string(i) + ": " +
          std::to_string(layer.head_count) + " heads of " +
          std::to_string(layer.head_dim) + " elements, the cache has rows of " +
          std::to_string(layers[i].k_elements));
    }
  }
  if (block.kind() == BlockKind::kVariant &&
      block.position() != options.position) {
    return IncompatibleError(BlockName(block) + ": a variant of position " +
                             std::to_string(block.position()) +
                             " can't stand at " +
                             std::to_string(options.position));
  }
  const llm::Position end = context.PositionEnd(options.sequence);
  if (end != options.position) {
    return InvalidArgumentError(
        "splice at position " + std::to_string(options.position) +
        ", but the sequence ends at " + std::to_string(end));
  }
  return Status::Ok();
}

// The last token's logits come only from decoding it.
std::vector<PlanRun> RunsFor(const RecomputePlan& plan, bool logits_for_last) {
  std::vector<PlanRun> runs = plan.runs;
  if (!logits_for_last || runs.empty() ||
      runs.back().kind == RunKind::kRecompute) {
    return runs;
  }
  const int end = runs.back().end;
  if (runs.back().size() == 1) {
    runs.pop_back();
  } else {
    --runs.back().end;
  }
  if (!runs.empty() && runs.back().kind == RunKind::kRecompute) {
    runs.back().end = end;  // one call instead of two
  } else {
    runs.push_back({RunKind::kRecompute, end - 1, end});
  }
  return runs;
}

Status LayDown(llm::Context& context, llm::KvAccess& access,
               const KvBlock& block, const std::vector<PlanRun>& runs,
               BlockRowSource& source, const SpliceOptions& options,
               SpliceResult* result) {
  const Clock& clock = Clock::Monotonic();
  for (const PlanRun& run : runs) {
    const auto begin = clock.Now();
    const llm::Position position = options.position + run.begin;
    ++result->runs;
    if (run.kind == RunKind::kSplice) {
      NEXUS_ASSIGN_OR_RETURN(const llm::KvWriteStats stats,
                             access.Write(options.sequence, position, source,
                                          run.begin, run.size()));
      result->staging_bytes =
          std::max(result->staging_bytes, stats.staging_bytes);
      result->spliced_tokens += run.size();
      result->write_ms += Milliseconds(clock.Now() - begin);
      continue;
    }
    const bool is_last = run.end == block.token_count();
    const auto tokens = block.tokens().subspan(static_cast<size_t>(run.begin),
                                               static_cast<size_t>(run.size()));
    NEXUS_RETURN_IF_ERROR(context.Decode(tokens, position, options.sequence,
                                         is_last && options.logits_for_last
                                             ? llm::Logits::kLast
                                             : llm::Logits::kNone));
    result->recomputed_tokens += run.size();
    result->repair_ms += Milliseconds(clock.Now() - begin);
  }
  return Status::Ok();
}

}  // namespace

Result<SpliceResult> Splice(llm::Context& context, llm::KvAccess& access,
                            const llm::RopeSpec& rope, const KvBlock& block,
                            const RecomputePlan& plan,
                            const SpliceOptions& options) {
  NEXUS_RETURN_IF_ERROR(CheckPlan(block, plan));
  NEXUS_RETURN_IF_ERROR(CheckFit(context, access, rope, block, options));
  const std::vector<PlanRun> runs = RunsFor(plan, options.logits_for_last);
  const Clock& clock = Clock::Monotonic();
  const auto begin = clock.Now();
  SpliceResult result;
  std::optional<KeyRotator> rotator;
  if (block.kind() == BlockKind::kSplice) {
    rotator.emplace(rope, options.position, block.token_count());
  }
  result.write_ms = Milliseconds(clock.Now() - begin);
  BlockRowSource source(block, rotator ? &*rotator : nullptr);
  Status status =
      LayDown(context, access, block, runs, source, options, &result);
  if (!status.ok()) {
    context.RemoveCells(options.sequence, options.position, -1);
    return status;
  }
  if (rotator) result.staging_bytes += rotator->byte_count();
  result.staging_bytes += source.byte_count();
  return result;
}

}  // namespace nexus::kv
