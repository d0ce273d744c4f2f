#include "nexus/engine/budget.h"

#include <algorithm>
#include <array>
#include <utility>

namespace nexus::engine {
namespace {

constexpr std::array<std::pair<Budget, std::string_view>, 3> kBudgetNames = {
    {{Budget::kStrict, "strict"},
     {Budget::kBalanced, "balanced"},
     {Budget::kFast, "fast"}}};

}  // namespace

std::string_view BudgetName(Budget budget) {
  for (const auto& [value, name] : kBudgetNames) {
    if (value == budget) return name;
  }
  return "unknown";
}

std::optional<Budget> ParseBudget(std::string_view name) {
  for (const auto& [value, known] : kBudgetNames) {
    if (known == name) return value;
  }
  return std::nullopt;
}

BudgetLimits LimitsOf(Budget budget, double noise_kl) {
  const double strict_kl = 2 * noise_kl;
  switch (budget) {
    case Budget::kStrict:
      return {strict_kl, 0.995};
    case Budget::kBalanced:
      return {std::max(3e-3, strict_kl), 0.99};
    case Budget::kFast:
      break;
  }
  return {std::max(0.02, strict_kl), 0.98};
}

}  // namespace nexus::engine
