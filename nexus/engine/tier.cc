#include "nexus/engine/tier.h"

#include <array>
#include <utility>

namespace nexus::engine {
namespace {

constexpr std::array<std::pair<Tier, std::string_view>, 5> kNames = {{
    {Tier::kAuto, "auto"},
    {Tier::kExactPrefix, "exact-prefix"},
    {Tier::kExactVariant, "exact-variant"},
    {Tier::kSplice, "splice"},
    {Tier::kPrefill, "prefill"},
}};

}  // namespace

std::string_view TierName(Tier tier) {
  for (const auto& [value, name] : kNames) {
    if (value == tier) return name;
  }
  return "unknown";
}

std::optional<Tier> ParseTier(std::string_view name) {
  for (const auto& [value, text] : kNames) {
    if (text == name) return value;
  }
  return std::nullopt;
}

}  // namespace nexus::engine
