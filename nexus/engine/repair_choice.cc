#include "nexus/engine/repair_choice.h"

namespace nexus::engine {

Result<RepairChoice> ChooseRepair(const RepairRequest& request) {
  if (request.policy.has_value()) {
    return RepairChoice{.policy = *request.policy, .share = request.share};
  }
  if (request.profile == nullptr) {
    return RepairChoice{.note = request.profile_note};
  }
  const RepairProfile& profile = *request.profile;
  if (request.compile_contexts < profile.compile_contexts) {
    return RepairChoice{.note =
                            "repair: the profile was measured with blocks of " +
                            std::to_string(profile.compile_contexts) +
                            " compile contexts, this one has " +
                            std::to_string(request.compile_contexts) +
                            ", so the paper's curve holds"};
  }
  NEXUS_ASSIGN_OR_RETURN(
      const RepairRow* row,
      profile.Find(request.budget, request.depth, request.blocks));
  if (row->prefill) {
    return UnimplementedError("splice: no repair keeps the " +
                              std::string(BudgetName(request.budget)) +
                              " budget here: " + row->reason);
  }
  return RepairChoice{.policy = row->policy, .share = row->share};
}

}  // namespace nexus::engine
