// Budget: how far a spliced answer may be from full prefill's.
#ifndef NEXUS_ENGINE_BUDGET_H_
#define NEXUS_ENGINE_BUDGET_H_

#include <optional>
#include <string_view>

namespace nexus::engine {

enum class Budget {
  kStrict,    // mean KL within 2x the noise floor, top-1 >= 99.5 %
  kBalanced,  // mean KL <= 0.003 nats (or strict's, if larger), top-1 >= 99 %
  kFast,      // no repair; mean KL <= 0.02, top-1 >= 98 %
};

// What is followed unless somebody asks for another: docs/decisions/0014.
inline constexpr Budget kDefaultBudget = Budget::kFast;

// "strict", "balanced", "fast".
std::string_view BudgetName(Budget budget);
std::optional<Budget> ParseBudget(std::string_view name);

struct BudgetLimits {
  double kl_mean = 0;
  double top1 = 0;
};
// `noise_kl` is the model's noise floor.
BudgetLimits LimitsOf(Budget budget, double noise_kl);

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_BUDGET_H_
