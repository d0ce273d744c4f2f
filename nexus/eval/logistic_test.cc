#include "nexus/eval/logistic.h"

#include <cmath>

#include "gtest/gtest.h"

#include "nexus/eval/draws.h"

namespace nexus::eval {
namespace {

// Rows drawn from a known model: the fit must find it again.
TEST(FitLogisticTest, FindsTheModelThatMadeTheRows) {
  Draws draws(7);
  const auto uniform = [&] {
    return static_cast<double>(draws.Below(1'000'000)) / 1e6;
  };
  LogisticData data;
  data.columns = 3;
  constexpr int kRows = 20000;
  for (int r = 0; r < kRows; ++r) {
    const double a = uniform() * 4 - 2;
    const double b = uniform() * 10;
    data.rows.push_back(static_cast<float>(a));
    data.rows.push_back(static_cast<float>(b));
    data.rows.push_back(5);  // says nothing
    const double p = 1 / (1 + std::exp(-(1.5 * a - 0.4 * b + 1)));
    data.yes.push_back(uniform() < p ? 1 : 0);
    data.weight.push_back(1.0 / kRows);
  }
  const LogisticFit fit = FitLogistic(data, 1e-6);
  EXPECT_NEAR(fit.weights[0], 1.5, 0.1);
  EXPECT_NEAR(fit.weights[1], -0.4, 0.05);
  EXPECT_EQ(fit.weights[2], 0);
  EXPECT_NEAR(fit.bias, 1, 0.2);
}

TEST(FitLogisticTest, AWeightCountsAsSoManyRows) {
  LogisticData twice;
  twice.columns = 1;
  twice.rows = {0, 0, 0, 1, 1};
  twice.yes = {0, 1, 1, 1, 0};
  twice.weight = {1, 1, 1, 1, 1};
  LogisticData weighed;
  weighed.columns = 1;
  weighed.rows = {0, 0, 1, 1};
  weighed.yes = {0, 1, 1, 0};
  weighed.weight = {1, 2, 1, 1};
  const LogisticFit a = FitLogistic(twice, 0.01);
  const LogisticFit b = FitLogistic(weighed, 0.01);
  EXPECT_NEAR(a.weights[0], b.weights[0], 1e-6);
  EXPECT_NEAR(a.bias, b.bias, 1e-6);
}

TEST(FitLogisticTest, StaysFiniteWhereRowsAreSeparableAllAlikeOrNone) {
  LogisticData data;
  data.columns = 1;
  EXPECT_EQ(FitLogistic(data, 1e-3).bias, 0);
  data.rows = {1, 2, 3, 4};
  data.weight = {1, 1, 1, 1};
  for (const std::vector<char>& yes :
       {std::vector<char>{0, 0, 1, 1}, std::vector<char>{1, 1, 1, 1}}) {
    data.yes = yes;
    const LogisticFit fit = FitLogistic(data, 1e-3);
    EXPECT_TRUE(std::isfinite(fit.weights[0]));
    EXPECT_TRUE(std::isfinite(fit.bias));
    EXPECT_GT(fit.bias + 4 * fit.weights[0], 1);  // the last says yes
  }
}

}  // namespace
}  // namespace nexus::eval
