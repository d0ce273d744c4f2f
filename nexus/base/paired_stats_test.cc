#include "nexus/base/paired_stats.h"

#include <vector>

#include "gtest/gtest.h"

namespace nexus {
namespace {

TEST(PairedStatsTest, McNemarAgreesWithHandCalculation) {
  EXPECT_DOUBLE_EQ(McNemarExact(0, 0), 1);
  EXPECT_DOUBLE_EQ(McNemarExact(3, 3), 1);
  // 2 * (1 + 10) / 2^10
  EXPECT_NEAR(McNemarExact(1, 9), 22.0 / 1024, 1e-12);
  EXPECT_NEAR(McNemarExact(9, 1), 22.0 / 1024, 1e-12);
  EXPECT_NEAR(McNemarExact(5, 0), 2.0 / 32, 1e-12);
  // Large counts neither overflow nor vanish: about z = 4.47.
  EXPECT_NEAR(McNemarExact(400, 600), 2.7e-10, 3e-11);
}

TEST(PairedStatsTest, WilsonAgreesWithHandCalculation) {
  const Interval half = WilsonInterval(50, 100);
  EXPECT_NEAR(half.low, 0.4038, 1e-4);
  EXPECT_NEAR(half.high, 0.5962, 1e-4);
  const Interval none = WilsonInterval(0, 20);
  EXPECT_DOUBLE_EQ(none.low, 0);
  EXPECT_NEAR(none.high, 0.1611, 1e-4);
  EXPECT_DOUBLE_EQ(WilsonInterval(0, 0).high, 1);
}

}  // namespace
}  // namespace nexus
