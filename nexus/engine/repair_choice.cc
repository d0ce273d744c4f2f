#include "nexus/engine/repair_choice.h"

#include <cmath>

namespace nexus::engine {

Result<RepairChoice> ChooseRepair(const RepairRequest& request) {
  const auto curve_depth =
      static_cast<int>(std::lround((1 - request.shared) * request.depth));
  RepairChoice choice;
  choice.curve_depth = curve_depth;
  if (request.policy.has_value()) {
    choice.policy = *request.policy;
    choice.share = request.share;
    return choice;
  }
  if (request.profile == nullptr) {
    choice.note = request.profile_note;
    return choice;
  }
  NEXUS_ASSIGN_OR_RETURN(
      const RepairRow* row,
      request.profile->Find({.budget = request.budget,
                             .depth = request.depth,
                             .blocks = request.blocks,
                             .shared = request.shared,
                             .contexts = request.compile_contexts,
                             .storage = request.storage}));
  if (row->prefill) {
    return UnimplementedError("splice: no repair keeps the " +
                              std::string(BudgetName(request.budget)) +
                              " budget here: " + row->reason);
  }
  choice.policy = row->policy;
  choice.share = row->share;
  choice.kl_mean = row->kl_mean;
  return choice;
}

bool IsCheaper(const RepairChoice& a, const RepairChoice& b) {
  if (a.kl_mean < 0 || b.kl_mean < 0) return false;
  return a.share != b.share ? a.share < b.share : a.kl_mean < b.kl_mean;
}

}  // namespace nexus::engine
