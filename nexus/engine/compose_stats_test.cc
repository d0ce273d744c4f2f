#include "nexus/engine/compose_stats.h"

#include <vector>

#include "gtest/gtest.h"

namespace nexus::engine {
namespace {

TEST(ComposeStatsTest, McNemarAgreesWithHandCalculation) {
  EXPECT_DOUBLE_EQ(McNemarExact(0, 0), 1);
  EXPECT_DOUBLE_EQ(McNemarExact(3, 3), 1);
  // 2 * (1 + 10) / 2^10
  EXPECT_NEAR(McNemarExact(1, 9), 22.0 / 1024, 1e-12);
  EXPECT_NEAR(McNemarExact(9, 1), 22.0 / 1024, 1e-12);
  EXPECT_NEAR(McNemarExact(5, 0), 2.0 / 32, 1e-12);
  // Large counts neither overflow nor vanish: about z = 4.47.
  EXPECT_NEAR(McNemarExact(400, 600), 2.7e-10, 3e-11);
}

TEST(ComposeStatsTest, WilsonAgreesWithHandCalculation) {
  const Interval half = WilsonInterval(50, 100);
  EXPECT_NEAR(half.low, 0.4038, 1e-4);
  EXPECT_NEAR(half.high, 0.5962, 1e-4);
  const Interval none = WilsonInterval(0, 20);
  EXPECT_DOUBLE_EQ(none.low, 0);
  EXPECT_NEAR(none.high, 0.1611, 1e-4);
  EXPECT_DOUBLE_EQ(WilsonInterval(0, 0).high, 1);
}

TEST(ComposeStatsTest, BootstrapCoversTheMeanAndIsRepeatable) {
  std::vector<double> differences(200, 0);
  for (int i = 0; i < 20; ++i) differences[static_cast<size_t>(i * 7)] = -1;
  const Interval first = BootstrapMean(differences);
  EXPECT_LT(first.low, -0.1);
  EXPECT_GT(first.high, -0.1);
  // sqrt(0.1 * 0.9 / 200) * 1.96 = 0.042 on either side.
  EXPECT_NEAR(first.low, -0.142, 0.01);
  EXPECT_NEAR(first.high, -0.058, 0.01);
  EXPECT_DOUBLE_EQ(first.low, BootstrapMean(differences).low);
  EXPECT_DOUBLE_EQ(BootstrapMean({}).high, 0);
}

}  // namespace
}  // namespace nexus::engine
