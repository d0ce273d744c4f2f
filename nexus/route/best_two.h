// BestTwo: the best tool by a score, and the best that isn't its twin.
#ifndef NEXUS_ROUTE_BEST_TWO_H_
#define NEXUS_ROUTE_BEST_TWO_H_

#include <span>

namespace nexus::route {

struct BestTwo {
  int best = -1;   // -1: the scope is empty
  int rival = -1;  // the best that isn't a twin of `best`; -1: none
};

// Equal scores in scope's order. `scores` and `twin_class`: one a tool. A score
// that isn't a number is behind every other.
BestTwo FindBestTwo(std::span<const float> scores, std::span<const int> scope,
                    std::span<const int> twin_class);

}  // namespace nexus::route

#endif  // NEXUS_ROUTE_BEST_TWO_H_
