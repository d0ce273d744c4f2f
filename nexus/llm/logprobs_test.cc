#include "nexus/llm/logprobs.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace nexus::llm {
namespace {

TEST(LogprobsTest, IsTheLogOfTheSoftmax) {
  const std::vector<float> logits = {1.0F, 3.0F, 2.0F};
  const double sum = std::exp(1.0) + std::exp(3.0) + std::exp(2.0);
  const LogprobRow row = Logprobs(logits, 2, 2);
  EXPECT_EQ(row.sampled.token, 2);
  EXPECT_NEAR(row.sampled.logprob, 2.0 - std::log(sum), 1e-12);
  ASSERT_EQ(row.top.size(), 2U);
  EXPECT_EQ(row.top[0].token, 1);
  EXPECT_NEAR(row.top[0].logprob, 3.0 - std::log(sum), 1e-12);
  EXPECT_EQ(row.top[1].token, 2);
}

TEST(LogprobsTest, AllOfThemSumToOne) {
  std::vector<float> logits;
  for (int i = 0; i < 1000; ++i) {
    logits.push_back(static_cast<float>((i * 37) % 101) * 0.3F - 7.0F);
  }
  double sum = 0;
  for (const TokenLogprob& each : Logprobs(logits, 0, 1000).top) {
    sum += std::exp(each.logprob);
  }
  EXPECT_NEAR(sum, 1.0, 1e-9);
}

TEST(LogprobsTest, BigLogitsDoNotOverflowAndEqualsComeByTheirIds) {
  const std::vector<float> logits = {1e30F, 1e30F, -1e30F};
  const LogprobRow row = Logprobs(logits, 0, 3);
  EXPECT_NEAR(row.sampled.logprob, -std::log(2.0), 1e-9);
  EXPECT_EQ(row.top[0].token, 0);
  EXPECT_EQ(row.top[1].token, 1);
  EXPECT_TRUE(std::isfinite(row.top[2].logprob));
}

TEST(LogprobsTest, WhatCannotComeIsMinusInfinity) {
  const float never = -std::numeric_limits<float>::infinity();
  const LogprobRow row = Logprobs(std::vector<float>{0.0F, never}, 1, 9);
  EXPECT_EQ(row.sampled.logprob, -std::numeric_limits<double>::infinity());
  EXPECT_EQ(row.top.size(), 2U);
}

TEST(LogprobsTest, NoneIsAskedFor) {
  EXPECT_TRUE(Logprobs(std::vector<float>{0.0F, 1.0F}, 0, 0).top.empty());
}

}  // namespace
}  // namespace nexus::llm
