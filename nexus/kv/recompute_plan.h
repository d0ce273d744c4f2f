// RecomputePlan: which tokens of a block are spliced as stored, and which are
// decoded again in place. A pure function, so that every policy can be compared
// at the same budget and tested without a model.
//
// llama.cpp wants consecutive positions, so a plan is a list of runs laid down
// left to right. A decode call of fewer than about 8 tokens costs as much as
// one of 8 (one pass over the weights either way), so short runs are widened to
// `min_run`: the tokens added cost nothing and repair more.
#ifndef NEXUS_KV_RECOMPUTE_PLAN_H_
#define NEXUS_KV_RECOMPUTE_PLAN_H_

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "nexus/base/result.h"

namespace nexus::kv {

enum class RepairPolicy {
  kNone,         // splice all: the fastest, the drift stays
  kSuffix,       // the paper's: the trailing share
  kHead,         // the leading share
  kSensitivity,  // the tokens that varied most over the compile contexts
  kHeadTail,     // two thirds of the share at the head, one third at the tail
  kDeviation,  // the tokens that deviate most from a full prefill, as measured
  kFull,       // decode all: a prefill
};

// "none", "suffix", "head", "sensitivity", "head-tail", "deviation", "full".
std::string_view RepairPolicyName(RepairPolicy policy);
std::optional<RepairPolicy> ParseRepairPolicy(std::string_view name);

struct PlanRequest {
  RepairPolicy policy = RepairPolicy::kSuffix;
  int token_count = 0;
  int depth = 0;        // n_past: tokens in front of the block
  double share = -1.0;  // of the tokens to decode again; < 0: CurveShare
  // One a token, finite and >= 0. Empty: kSensitivity falls back to kHeadTail.
  std::span<const float> sensitivity;
  // The same for kDeviation, which can't do without: whoever has it has seen
  // the full prefill (a study, an audit).
  std::span<const float> deviation;
  int anchored_bound = 256;  // P: no recompute up to here
  int full_depth = 2048;     // from here on everything is recomputed
  int merge_gap = 4;  // recompute runs this close become one (sensitivity only)
  int min_run = 8;    // shortest recompute run worth a call (sensitivity only)
};

enum class RunKind { kSplice, kRecompute };

struct PlanRun {
  RunKind kind = RunKind::kSplice;
  int begin = 0;  // tokens [begin, end) of the block
  int end = 0;

  int size() const { return end - begin; }
  friend bool operator==(const PlanRun&, const PlanRun&) = default;
};

struct RecomputePlan {
  RepairPolicy policy = RepairPolicy::kNone;  // the one that was followed
  // Ordered, alternating, cover [0, token_count) once.
  std::vector<PlanRun> runs;
  int recomputed_tokens = 0;
  double share = 0.0;  // recomputed_tokens / token_count
  int decode_calls = 0;
};

// R(depth) of the paper: 0 up to `anchored_bound`, linear to 1 at `full_depth`.
double CurveShare(int depth, int anchored_bound, int full_depth);

// Recomputes exactly floor(share * token_count) tokens, whatever the policy, so
// that arms of one budget are comparable (kNone: 0, kFull: all).
// kInvalidArgument: share above 1 or not a number, negative counts, a profile
// of another length.
Result<RecomputePlan> PlanRecompute(const PlanRequest& request);

}  // namespace nexus::kv

#endif  // NEXUS_KV_RECOMPUTE_PLAN_H_
