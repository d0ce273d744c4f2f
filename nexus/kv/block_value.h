// What a block is worth to its store: which ones stay when it is full.
//
//   value = expected uses * tokens saved a use / bytes
//
// Expected uses are the uses so far, each fading by half over kHeatHalfLife
// uses of the store (not hours: a store that is left alone for a week forgets
// nothing, and a clock that steps does no harm). Kept as
//
//   heat = log2( sum over uses of 2^(when / kHeatHalfLife) )
//
// which needs no touch as time goes by: all blocks fade alike, so their order
// changes only when one is used. Cormode et al., "Forward decay", 2009.
// eviction_bench.cc holds it against least-recently-used.
#ifndef NEXUS_KV_BLOCK_VALUE_H_
#define NEXUS_KV_BLOCK_VALUE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace nexus::kv {

inline constexpr double kHeatHalfLife = 1000;

// Heat of a block whose `uses` were all at `when`, a count of the store's uses.
inline double HeatOf(int64_t uses, int64_t when) {
  return static_cast<double>(when) / kHeatHalfLife +
         std::log2(static_cast<double>(std::max<int64_t>(uses, 1)));
}

// After one more use.
inline double HeatAfterUse(double heat, int64_t when) {
  const double use = static_cast<double>(when) / kHeatHalfLife;
  return std::max(heat, use) + std::log2(1 + std::exp2(-std::fabs(heat - use)));
}

// Logarithm of the value, in the unit of heat.
inline double LogBlockValue(double heat, int64_t tokens, uint64_t bytes) {
  return heat + std::log2(static_cast<double>(std::max<int64_t>(tokens, 1)) /
                          static_cast<double>(std::max<uint64_t>(bytes, 1)));
}

}  // namespace nexus::kv

#endif  // NEXUS_KV_BLOCK_VALUE_H_
