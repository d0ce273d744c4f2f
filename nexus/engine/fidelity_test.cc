#include "nexus/engine/fidelity.h"

#include <array>
#include <cmath>

#include "gtest/gtest.h"

namespace nexus::engine {
namespace {

TEST(FidelityTest, LogSoftmaxSumsToOneAndSurvivesLargeLogits) {
  const std::array<float, 4> logits = {900.0F, 901.0F, -900.0F, 899.0F};
  std::array<float, 4> log_probs{};
  LogSoftmax(logits, log_probs);
  double sum = 0;
  for (const float x : log_probs) sum += std::exp(static_cast<double>(x));
  EXPECT_NEAR(sum, 1.0, 1e-5);
  EXPECT_NEAR(static_cast<double>(log_probs[1] - log_probs[0]), 1.0, 1e-4);
}

TEST(FidelityTest, KlOfADistributionWithItselfIsZero) {
  const std::array<float, 3> logits = {0.1F, 2.0F, -1.0F};
  std::array<float, 3> p{};
  LogSoftmax(logits, p);
  EXPECT_EQ(KlDivergence(p, p), 0.0);
}

TEST(FidelityTest, KlAgreesWithTheClosedFormOfTwoCoins) {
  const auto coin = [](double heads) {
    return std::array<float, 2>{static_cast<float>(std::log(heads)),
                                static_cast<float>(std::log(1 - heads))};
  };
  const double expected =
      0.75 * std::log(0.75 / 0.5) + 0.25 * std::log(0.25 / 0.5);
  EXPECT_NEAR(KlDivergence(coin(0.75), coin(0.5)), expected, 1e-6);
}

TEST(FidelityTest, StatsAddUpOverTrials) {
  FidelityStats all;
  all.Add({.kl = {0.1, 0.3}, .top1_equal = 1});
  all.Add({.kl = {0.2}, .top1_equal = 1});
  EXPECT_NEAR(all.KlMean(), 0.2, 1e-12);
  EXPECT_NEAR(all.Top1(), 2.0 / 3, 1e-12);
}

}  // namespace
}  // namespace nexus::engine
