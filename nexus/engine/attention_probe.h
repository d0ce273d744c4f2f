// AttentionProbe: with or without flash attention? Measured, not assumed.
//
// llama.cpp's CPU flash attention falls off a cliff below 64 tokens a batch
// deep in a context: about ten times slower at depth 4,096 than without. A
// short user turn behind a spliced schema is just such a batch. Other backends
// differ, so both settings are timed once per model, machine and thread count,
// and the answer is kept in the store.
#ifndef NEXUS_ENGINE_ATTENTION_PROBE_H_
#define NEXUS_ENGINE_ATTENTION_PROBE_H_

#include <memory>
#include <string>

#include "nexus/base/result.h"
#include "nexus/llm/context.h"

namespace nexus::engine {

struct AttentionTiming {
  double with_flash_ms = 0;
  double without_flash_ms = 0;
  int depth_tokens =
      0;  // kProbeDepthTokens, less for models of a short context
};

inline constexpr int kProbeDepthTokens = 1536;
inline constexpr int kProbeBatchTokens = 40;

// Times a batch of kProbeBatchTokens at depth kProbeDepthTokens under both
// settings, alternating, best of three each. The cells before are filled with
// zeros instead of being decoded: the time doesn't depend on their values.
Result<AttentionTiming> TimeAttention(
    const std::shared_ptr<const llm::Model>& model,
    const llm::ContextOptions& options);

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_ATTENTION_PROBE_H_
