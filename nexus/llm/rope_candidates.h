// RopeCandidates: the rotations that a model's file makes plausible, most
// plausible first. Internal to nexus/llm; RopeProbe finds the one that is true.
#ifndef NEXUS_LLM_ROPE_CANDIDATES_H_
#define NEXUS_LLM_ROPE_CANDIDATES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/llm/model.h"
#include "nexus/simd/rope_rotate.h"

namespace nexus::llm {

struct RopeCandidate {
  // rotated_dims 0: keys of this layer aren't rotated at all.
  simd::RopeParams params;
  uint32_t head_dim = 0;
};

Result<std::vector<RopeCandidate>> ListRopeCandidates(const Model& model);

// "half-split, 64 of 64 dims, base 1000000". Distinct for distinct candidates.
std::string DescribeRope(const RopeCandidate& candidate);

}  // namespace nexus::llm

#endif  // NEXUS_LLM_ROPE_CANDIDATES_H_
