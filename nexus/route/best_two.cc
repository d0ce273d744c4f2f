#include "nexus/route/best_two.h"

#include <cmath>

namespace nexus::route {

BestTwo FindBestTwo(std::span<const float> scores, std::span<const int> scope,
                    std::span<const int> twin_class) {
  const auto is_better = [&](int tool, int than) {
    if (than < 0) return true;
    const float score = scores[static_cast<size_t>(tool)];
    const float other = scores[static_cast<size_t>(than)];
    return score > other || (std::isnan(other) && !std::isnan(score));
  };
  BestTwo found;
  for (const int tool : scope) {
    if (is_better(tool, found.best)) found.best = tool;
  }
  for (const int tool : scope) {
    const bool is_twin = twin_class[static_cast<size_t>(tool)] ==
                         twin_class[static_cast<size_t>(found.best)];
    if (!is_twin && is_better(tool, found.rival)) found.rival = tool;
  }
  return found;
}

}  // namespace nexus::route
