// RepairChoice: which repair a splice gets. A pure function of the request's
// wish, the model's profile and the place, so that the rules can be tested
// without a model:
//
// 1. A policy that the caller names is followed.
// 2. A profile decides by budget. Where it holds no answer (deeper, or another
//    kind of block, than was measured), or none that keeps the budget, the text
//    is prefilled.
// 3. Without a profile, the paper's curve: nothing up to 256 tokens, growing to
//    everything at 2,048. For a block of the same conversation the tokens that
//    have come since count instead of the depth.
#ifndef NEXUS_ENGINE_REPAIR_CHOICE_H_
#define NEXUS_ENGINE_REPAIR_CHOICE_H_

#include <optional>
#include <string>

#include "nexus/base/result.h"
#include "nexus/engine/repair_profile.h"
#include "nexus/kv/block_storage.h"
#include "nexus/kv/recompute_plan.h"

namespace nexus::engine {

struct RepairRequest {
  std::optional<kv::RepairPolicy> policy;
  double share = -1;  // with a policy; < 0: the policy's own curve
  Budget budget = kDefaultBudget;
  int depth = 0;
  int blocks = 1;
  int compile_contexts = 1;       // behind the block
  kv::BlockStorage storage = {};  // its rows
  // ConversationBlock::shared; 0: a compiled or learned block.
  double shared = 0;
  // Null: `profile_note` says why there is none.
  const RepairProfile* profile = nullptr;
  std::string profile_note;
};

struct RepairChoice {
  kv::RepairPolicy policy = kv::RepairPolicy::kSuffix;
  double share = -1;
  int curve_depth = 0;  // PlanRequest::depth
  double kl_mean = -1;  // as the profile measured it; < 0: not from a profile
  // Why it isn't the budget's own repair; empty when it is.
  std::string note;
};

// kUnimplemented, kNotFound: prefill, with the reason.
Result<RepairChoice> ChooseRepair(const RepairRequest& request);

// Of two choices that keep the budget: less to decode again, then the nearer
// one to a prefill. False when a profile doesn't know both.
bool IsCheaper(const RepairChoice& a, const RepairChoice& b);

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_REPAIR_CHOICE_H_
