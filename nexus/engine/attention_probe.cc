#include "nexus/engine/attention_probe.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "nexus/base/clock.h"
#include "nexus/llm/kv_access.h"

namespace nexus::engine {
namespace {

constexpr int kRounds = 3;

// Rows of zeros, which are zeros in every element type.
class ZeroRows : public llm::KvRowSource {
 public:
  explicit ZeroRows(const llm::KvLayout& layout) : layout_(layout) {
    size_t widest = 0;
    for (size_t layer = 0; layer < layout.layers.size(); ++layer) {
      widest = std::max(widest, layout.RowBytesV(layer));
    }
    zeros_.resize(widest);
  }
  void FillK(size_t layer, int, int count, void* out) override {
    std::memset(out, 0, layout_.RowBytesK(layer) * static_cast<size_t>(count));
  }
  const void* VRow(size_t, int) override { return zeros_.data(); }
  size_t VStrideBytes(size_t) override { return 0; }

 private:
  const llm::KvLayout& layout_;
  std::vector<uint8_t> zeros_;
};

struct Arm {
  std::unique_ptr<llm::Context> context;
  double best_ms = std::numeric_limits<double>::infinity();
};

Result<Arm> MakeArm(const std::shared_ptr<const llm::Model>& model,
                    llm::ContextOptions options, int depth) {
  Arm arm;
  NEXUS_ASSIGN_OR_RETURN(arm.context, llm::Context::Create(model, options));
  NEXUS_ASSIGN_OR_RETURN(auto access, llm::KvAccess::Create(arm.context.get()));
  ZeroRows zeros(access->layout());
  NEXUS_RETURN_IF_ERROR(access->Write(0, 0, zeros, 0, depth).status());
  return arm;
}

Status TimeBatch(std::span<const llm::Token> batch, int depth, Arm* arm) {
  const auto start = Clock::Monotonic().Now();
  NEXUS_RETURN_IF_ERROR(
      arm->context->Decode(batch, depth, 0, llm::Logits::kLast));
  arm->best_ms =
      std::min(arm->best_ms, Milliseconds(Clock::Monotonic().Now() - start));
  if (!arm->context->RemoveCells(0, depth, -1)) {
    return UnimplementedError("the model's memory can't be cut");
  }
  return Status::Ok();
}

}  // namespace

Result<AttentionTiming> TimeAttention(
    const std::shared_ptr<const llm::Model>& model,
    const llm::ContextOptions& options) {
  const int trained = model->info().context_train;
  const int depth = std::min(kProbeDepthTokens, std::max(64, trained / 2));
  llm::ContextOptions small = options;
  small.context_tokens = depth + kProbeBatchTokens + 8;
  small.flash_attention = true;
  NEXUS_ASSIGN_OR_RETURN(Arm flash, MakeArm(model, small, depth));
  small.flash_attention = false;
  NEXUS_ASSIGN_OR_RETURN(Arm plain, MakeArm(model, small, depth));
  const std::vector<llm::Token> batch(
      static_cast<size_t>(std::min(kProbeBatchTokens, depth)), 1);
  for (int round = 0; round < kRounds; ++round) {
    NEXUS_RETURN_IF_ERROR(TimeBatch(batch, depth, &flash));
    NEXUS_RETURN_IF_ERROR(TimeBatch(batch, depth, &plain));
  }
  return AttentionTiming{.with_flash_ms = flash.best_ms,
                         .without_flash_ms = plain.best_ms,
                         .depth_tokens = depth};
}

}  // namespace nexus::engine
