// RopeProbe: finds, and proves, how each layer of a model rotates its keys.
//
// Neither the API nor the file says it all (no dimension_count for Qwen2, no
// second base for Gemma). But one token decoded alone at position 0 and alone
// at position p has the same hidden states in every layer, since a single key
// makes attention trivial; so each layer's key at p must be our rotation of its
// key at 0. Candidates come from the metadata and from known families; the one
// that fits is taken, and a layer that none fits makes the model unfit for
// splicing.
#ifndef NEXUS_LLM_ROPE_PROBE_H_
#define NEXUS_LLM_ROPE_PROBE_H_

#include <string>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/llm/kv_access.h"
#include "nexus/simd/rope_rotate.h"

namespace nexus::llm {

struct LayerRope {
  simd::RopeParams
      params;  // layout, dims, base, scaling: proven for this layer
  uint32_t head_count = 0;  // KV heads in a K row
  uint32_t head_dim = 0;
  double worst_error = 0;  // largest relative error over the probed positions
};

struct RopeSpec {
  std::vector<LayerRope> layers;  // in the order of KvLayout::layers
  // One line a distinct setting, stable: part of the fingerprint and of
  // `doctor`.
  std::string Describe() const;
};

// Decodes single tokens at several positions (up to the context's size), so the
// context must be empty; leaves it empty. kUnimplemented names the first layer
// that no candidate fits, with the best candidate and its error.
Result<RopeSpec> ProbeRope(Context& context, KvAccess& access);

}  // namespace nexus::llm

#endif  // NEXUS_LLM_ROPE_PROBE_H_
