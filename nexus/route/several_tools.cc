#include "nexus/route/several_tools.h"

#include <algorithm>

#include "nexus/route/best_two.h"
#include "nexus/route/clauses.h"

namespace nexus::route {

std::vector<size_t> PossibleWishes(std::span<const std::string> clauses,
                                   const SeveralToolsOptions& options) {
  std::vector<size_t> places;
  for (size_t i = 0; i < clauses.size(); ++i) {
    if (WordCount(clauses[i]) >= options.min_words) places.push_back(i);
  }
  return places;
}

Wish WishOf(size_t clause, std::span<const float> dense,
            std::span<const int> scope, std::span<const int> twin_class,
            const SeveralToolsOptions& options) {
  const auto [best, rival] = FindBestTwo(dense, scope, twin_class);
  Wish wish = {.clause = clause};
  if (best < 0) return wish;
  wish.cosine = dense[static_cast<size_t>(best)];
  const bool is_clear =
      rival < 0 ||
      !(wish.cosine - dense[static_cast<size_t>(rival)] < options.min_lead);
  if (wish.cosine >= options.min_cosine && is_clear) wish.tool = best;
  return wish;
}

std::vector<Wish> SeveralWishes(std::span<const Wish> wishes,
                                std::span<const int> twin_class) {
  std::vector<Wish> several;
  for (const Wish& wish : wishes) {
    if (wish.tool < 0) continue;
    const bool known =
        std::any_of(several.begin(), several.end(), [&](const Wish& earlier) {
          return twin_class[static_cast<size_t>(earlier.tool)] ==
                 twin_class[static_cast<size_t>(wish.tool)];
        });
    if (!known) several.push_back(wish);
  }
  if (several.size() < 2) several.clear();
  return several;
}

}  // namespace nexus::route
