#include "nexus/route/pair_gate.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace nexus::route {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

struct Scores {
  std::vector<int> tools = {2, 0, 1};
  std::vector<float> pair = {1.0F, 1.5F, -2.0F};
  std::vector<float> dense = {0.2F, 0.3F, 0.9F};
  std::vector<float> bm25 = {0.0F, 1.0F, 2.0F};
  std::vector<float> blended = {0.2F, 0.4F, 1.0F};
  std::vector<int> scope = {0, 1, 2};
  std::vector<int> twin_class = {0, 1, 2};

  PairInput Input() const {
    return {.tools = tools,
            .scores = pair,
            .first = {.dense = dense,
                      .bm25 = bm25,
                      .blended = blended,
                      .scope = scope,
                      .twin_class = twin_class}};
  }
};

TEST(OrderByPairsTest, FusedScoresWeighAsMuchAsAsked) {
  Scores scores;
  EXPECT_THAT(OrderByPairs(scores.Input(), 0), ElementsAre(1, 0, 2));
  // 1.0 + 1.0 against 1.5 + 0.2.
  EXPECT_THAT(OrderByPairs(scores.Input(), 1), ElementsAre(0, 1, 2));
  scores.blended[2] = NAN;  // counts nothing
  EXPECT_THAT(OrderByPairs(scores.Input(), 1), ElementsAre(1, 0, 2));
  scores.blended.clear();
  EXPECT_THAT(OrderByPairs(scores.Input(), 1), ElementsAre(1, 0, 2));
  scores.pair = {0, 0, 0};
  EXPECT_THAT(OrderByPairs(scores.Input(), 1), ElementsAre(0, 1, 2));
}

TEST(PairOddsTest, AreASoftmaxOverTheOthersAndNone) {
  Scores scores;
  EXPECT_NEAR(PairOdds(scores.Input(), 1),
              1.5 - std::log(1 + std::exp(1.0) + std::exp(-2.0)), 1e-5);
  scores.twin_class = {0, 1, 0};  // tools 0 and 2
  EXPECT_NEAR(PairOdds(scores.Input(), 1), 1.5 - std::log(1 + std::exp(-2.0)),
              1e-5);
  scores.pair = {1e4F, 2e4F, -1e4F};  // finite, whatever comes
  for (size_t place = 0; place < 3; ++place) {
    EXPECT_TRUE(std::isfinite(PairOdds(scores.Input(), place))) << place;
  }
}

TEST(ReadPairSignalsTest, AreOfTheToolThatWasReadBest) {
  const Scores scores;
  const GateSignals signals = ReadPairSignals(scores.Input(), 1);
  EXPECT_FLOAT_EQ(signals[0], 0.2F);
  EXPECT_NEAR(signals[1], 0.2 - 0.9, 1e-6);
  EXPECT_FLOAT_EQ(signals[kPairScore], 1.5F);
  EXPECT_FLOAT_EQ(signals[kPairOdds], PairOdds(scores.Input(), 1));
}

TEST(DecideByPairsTest, ByOddsWhereNothingIsCalibrated) {
  Scores scores;
  const PairGateOptions options;
  EXPECT_EQ(DecideByPairs(scores.Input(), 1, options).outcome,
            Outcome::kRerank);
  scores.pair[1] = 9;
  const GateDecision sure = DecideByPairs(scores.Input(), 1, options);
  EXPECT_EQ(sure.outcome, Outcome::kRoute);
  EXPECT_GE(sure.margin, sure.threshold);
  EXPECT_THAT(sure.reason, HasSubstr("at least 2.2"));
  scores.pair = {-8, -4, -9};
  EXPECT_EQ(DecideByPairs(scores.Input(), 1, options).outcome,
            Outcome::kAbstain);
}

TEST(DecideByPairsTest, ByTheHeadWhereThereIsOne) {
  Scores scores;
  PairGateOptions options;
  options.head.emplace();
  options.head->weights[kPairScore] = 2;
  options.head->bias = -3;
  options.head->route_at = 0.5F;  // the chance is a half
  const GateDecision decision = DecideByPairs(scores.Input(), 1, options);
  EXPECT_EQ(decision.outcome, Outcome::kRoute);
  EXPECT_EQ(decision.rule, "pair-head");
  EXPECT_THAT(decision.reason, HasSubstr("pair_score 1.5"));
  EXPECT_THAT(decision.reason, Not(HasSubstr("cosine")));  // weighs nothing
  // Its other signals come from the encoder; without one the odds decide.
  scores.dense.clear();
  EXPECT_EQ(DecideByPairs(scores.Input(), 1, options).rule, "pair-odds-unsure");
}

}  // namespace
}  // namespace nexus::route
