// Statistics of paired yes/no outcomes, exact or seeded: the same numbers on
// every machine.
#ifndef NEXUS_BASE_PAIRED_STATS_H_
#define NEXUS_BASE_PAIRED_STATS_H_

#include <cstdint>

#include "nexus/base/bootstrap.h"

namespace nexus {

// 0 of nothing.
inline double Share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}

// McNemar's exact test, two-sided: how likely a split of the discordant pairs
// as uneven as this is, if neither side is better. 1 without such pairs.
double McNemarExact(int64_t only_first, int64_t only_second);

// Wilson's score interval of a share at 95 %; [0, 1] for total == 0.
Interval WilsonInterval(int64_t successes, int64_t total);

}  // namespace nexus

#endif  // NEXUS_BASE_PAIRED_STATS_H_
