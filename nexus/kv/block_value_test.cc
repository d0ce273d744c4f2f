#include "nexus/kv/block_value.h"

#include "gmock/gmock.h"

#include "nexus/kv/testing/eviction_trace.h"

namespace nexus::kv {
namespace {

using ::nexus::kv::testing::EvictionPolicy;
using ::nexus::kv::testing::TokenHitRate;
using ::nexus::kv::testing::TraceOptions;

TEST(BlockValueTest, UsesAtOnceAddUp) {
  double heat = HeatOf(1, 5000);
  for (int use = 0; use < 7; ++use) heat = HeatAfterUse(heat, 5000);
  EXPECT_NEAR(heat, HeatOf(8, 5000), 1e-9);
}

TEST(BlockValueTest, AUseFadesByHalfOverTheHalfLife) {
  const auto later = static_cast<int64_t>(kHeatHalfLife);
  // Two uses then weigh as one now.
  EXPECT_NEAR(HeatOf(2, 0), HeatOf(1, later), 1e-9);
  EXPECT_GT(HeatOf(3, 0), HeatOf(1, later));
  EXPECT_NEAR(HeatAfterUse(HeatOf(2, 0), later), HeatOf(2, later), 1e-9);
}

// Sums of 2^(when / half-life) would overflow a double after a million uses.
TEST(BlockValueTest, StaysFiniteAfterAnyNumberOfUses) {
  const int64_t when = int64_t{1} << 50;
  const double heat = HeatAfterUse(HeatOf(1000, 3), when);
  EXPECT_TRUE(std::isfinite(heat));
  EXPECT_NEAR(heat, HeatOf(1, when), 1e-3);
}

TEST(BlockValueTest, HalfTheBytesAreWorthTwiceTheUses) {
  EXPECT_NEAR(LogBlockValue(HeatOf(1, 10), 100, 5000),
              LogBlockValue(HeatOf(2, 10), 100, 10000), 1e-9);
}

TEST(BlockValueTest, KeepsMoreTokensThanLeastRecentlyUsed) {
  for (const double share : {0.02, 0.1, 0.25}) {
    for (const bool mixed : {false, true}) {
      TraceOptions options;
      options.uses = 15000;
      options.limit_share = share;
      options.mixed_storage = mixed;
      EXPECT_GT(
          TokenHitRate(options, EvictionPolicy::kLeastValue),
          TokenHitRate(options, EvictionPolicy::kLeastRecentlyUsed) + 0.01)
          << share << " mixed " << mixed;
    }
  }
}

}  // namespace
}  // namespace nexus::kv
