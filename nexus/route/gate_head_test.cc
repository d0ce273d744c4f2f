#include "nexus/route/gate_head.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "nexus/route/gate.h"

namespace nexus::route {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;
using ::testing::FloatNear;

struct Scores {
  std::vector<float> dense = {0.5F, 0.3F, 0.4F, 0.9F};
  std::vector<float> bm25 = {2.0F, 4.0F, 0.0F, 8.0F};
  std::vector<float> blended = {0.6F, 0.5F, 0.4F, 1.3F};
  std::vector<int> scope = {0, 1, 2};  // 3 is the best, and outside
  std::vector<int> twin_class = {0, 1, 2, 3};

  SignalInput Input(int best) const {
    return {.dense = dense,
            .bm25 = bm25,
            .blended = blended,
            .scope = scope,
            .twin_class = twin_class,
            .best = best};
  }
};

TEST(ReadSignalsTest, ComparesWithTheBestOtherOfTheScope) {
  const Scores scores;
  EXPECT_THAT(ReadSignals(scores.Input(0)),
              ElementsAre(FloatEq(0.5F), FloatNear(0.1F, 1e-6F), FloatEq(0.5F),
                          FloatEq(-0.5F), FloatNear(0.1F, 1e-6F),
                          FloatEq(std::log10(3.0F)), 0, 0));
  EXPECT_THAT(ReadSignals(scores.Input(1))[1], FloatNear(-0.2F, 1e-6F));
}

TEST(ReadSignalsTest, ATwinIsNoRival) {
  Scores scores;
  scores.twin_class = {0, 0, 2, 3};
  const GateSignals signals = ReadSignals(scores.Input(0));
  EXPECT_THAT(signals[3], FloatEq(0.5F));
  EXPECT_THAT(signals[4], FloatNear(0.2F, 1e-6F));
}

TEST(ReadSignalsTest, AVectorThatIsNoNumberAndNoWordInCommonAreZero) {
  Scores scores;
  scores.dense[1] = NAN;
  scores.blended[1] = NAN;
  scores.bm25 = {0, 0, 0, 0};
  for (const float signal : ReadSignals(scores.Input(0))) {
    EXPECT_TRUE(std::isfinite(signal));
  }
  EXPECT_EQ(ReadSignals(scores.Input(1))[0], 0);
}

TEST(GateHeadTest, IsALogisticFunctionOfTheSum) {
  const GateHead head = {.weights = {2, 0, 0, 0, 0, -1}, .bias = 0.5F};
  EXPECT_FLOAT_EQ(head.Chance({0.25F, 9, 9, 9, 9, 1}), 0.5F);
  EXPECT_NEAR(head.Chance({1, 0, 0, 0, 0, 0}), 1 / (1 + std::exp(-2.5)), 1e-6);
}

TEST(GateHeadTest, DecidesInPlaceOfTheMargin) {
  const Scores scores;
  const Candidate best = {.tool = 0};
  GateInput input;
  input.candidates = {&best, 1};
  input.dense = scores.dense;
  input.bm25 = scores.bm25;
  input.blended = scores.blended;
  input.scope = scores.scope;
  input.twin_class = scores.twin_class;
  GateOptions options;
  options.head = {.weights = {1, 0, 0, 0, 0, 0}, .bias = -0.5F};
  options.head->route_at = 0.5F;  // the chance is a half
  EXPECT_EQ(Decide(input, options).outcome, Outcome::kRoute);
  EXPECT_EQ(Decide(input, options).rule, "head");
  options.head->route_at = 0.6F;
  EXPECT_EQ(Decide(input, options).outcome, Outcome::kRerank);
  EXPECT_EQ(Decide(input, options).rule, "head-unsure");
  options.head->abstain_below = 0.55F;
  const GateDecision decision = Decide(input, options);
  EXPECT_EQ(decision.outcome, Outcome::kAbstain);
  EXPECT_EQ(decision.rule, "head-low");
  EXPECT_FLOAT_EQ(decision.margin, 0.5F);
  EXPECT_FLOAT_EQ(decision.threshold, 0.55F);
  // A name in the query still decides first.
  input.exact_mentions = 1;
  EXPECT_EQ(Decide(input, options).rule, "exact-name");
}

}  // namespace
}  // namespace nexus::route
