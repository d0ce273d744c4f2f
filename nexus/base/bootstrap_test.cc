#include "nexus/base/bootstrap.h"

#include <vector>

#include "gtest/gtest.h"

namespace nexus {
namespace {

TEST(BootstrapTest, CoversTheMeanAndIsRepeatable) {
  std::vector<double> differences(200, 0);
  for (size_t i = 0; i < 20; ++i) differences[i * 7] = -1;
  const Interval first = BootstrapMean(differences);
  // sqrt(0.1 * 0.9 / 200) * 1.96 = 0.042 on either side.
  EXPECT_NEAR(first.low, -0.142, 0.01);
  EXPECT_NEAR(first.high, -0.058, 0.01);
  EXPECT_DOUBLE_EQ(first.low, BootstrapMean(differences).low);
  EXPECT_DOUBLE_EQ(first.high, BootstrapMean(differences).high);
}

TEST(BootstrapTest, ARatioIsOfSumsNotOfRatios) {
  const std::vector<RatioSample> samples = {{1, 1}, {0, 3}};
  EXPECT_DOUBLE_EQ(Ratio(samples), 0.25);
  const Interval interval = BootstrapRatio(samples);
  EXPECT_DOUBLE_EQ(interval.low, 0);
  EXPECT_DOUBLE_EQ(interval.high, 1);
}

TEST(BootstrapTest, ARatioOfWholesOfOneIsTheMean) {
  const std::vector<double> values = {0.5, 1, 0, 0.25, 1};
  std::vector<RatioSample> samples;
  for (const double value : values) samples.push_back({value, 1});
  EXPECT_DOUBLE_EQ(BootstrapRatio(samples).low, BootstrapMean(values).low);
  EXPECT_DOUBLE_EQ(BootstrapRatio(samples).high, BootstrapMean(values).high);
}

TEST(BootstrapTest, NothingToDrawFromIsZero) {
  EXPECT_DOUBLE_EQ(BootstrapMean({}).high, 0);
  EXPECT_DOUBLE_EQ(BootstrapRatio({}).high, 0);
  const std::vector<RatioSample> no_whole(3);
  EXPECT_DOUBLE_EQ(Ratio(no_whole), 0);
  EXPECT_DOUBLE_EQ(BootstrapRatio(no_whole).high, 0);
}

}  // namespace
}  // namespace nexus
