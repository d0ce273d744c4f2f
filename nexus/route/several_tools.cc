#include "nexus/route/several_tools.h"

#include <algorithm>
#include <cctype>
#include <limits>

namespace nexus::route {
namespace {

int WordCount(const std::string& text) {
  int count = 0;
  bool in_word = false;
  for (const char c : text) {
    const bool is_blank = std::isspace(static_cast<unsigned char>(c)) != 0;
    if (!is_blank && !in_word) ++count;
    in_word = !is_blank;
  }
  return count;
}

}  // namespace

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
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  const auto cosine = [&](int tool) {
    return dense[static_cast<size_t>(tool)];
  };
  Wish wish = {.clause = clause, .cosine = kNone};
  // A cosine that isn't a number is greater than nothing.
  for (const int tool : scope) {
    if (cosine(tool) > wish.cosine) {
      wish.tool = tool;
      wish.cosine = cosine(tool);
    }
  }
  float rival = kNone;
  for (const int tool : scope) {
    const bool is_twin =
        wish.tool >= 0 && twin_class[static_cast<size_t>(tool)] ==
                              twin_class[static_cast<size_t>(wish.tool)];
    if (!is_twin && cosine(tool) > rival) rival = cosine(tool);
  }
  if (wish.cosine < options.min_cosine ||
      wish.cosine - rival < options.min_lead) {
    wish.tool = -1;
  }
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
