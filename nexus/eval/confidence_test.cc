#include "nexus/eval/confidence.h"

#include "gtest/gtest.h"

namespace nexus::eval {
namespace {

TEST(ConfidenceTest, AreaCountsPairsAndTiesHalf) {
  const std::vector<double> positive = {3, 2, 1};
  EXPECT_DOUBLE_EQ(AreaUnderRoc(positive, std::vector<double>{0, 0.5}), 1);
  EXPECT_DOUBLE_EQ(AreaUnderRoc(positive, std::vector<double>{4}), 0);
  // 3 and one half of 3 pairs.
  EXPECT_DOUBLE_EQ(AreaUnderRoc(positive, std::vector<double>{2}), 0.5);
  EXPECT_DOUBLE_EQ(AreaUnderRoc(positive, {}), 0.5);
}

TEST(ConfidenceTest, FalseShareIsTakenWhereTheRecallIsKept) {
  std::vector<double> positive;
  for (int i = 1; i <= 20; ++i) positive.push_back(i);
  // 19 of 20 are at 2 or above.
  const std::vector<double> negative = {1, 1.5, 2, 30};
  EXPECT_DOUBLE_EQ(FalseShareAtRecall(positive, negative, 0.95), 0.5);
  EXPECT_DOUBLE_EQ(FalseShareAtRecall(positive, negative, 1), 1);
  EXPECT_DOUBLE_EQ(FalseShareAtRecall({}, negative, 0.95), 0);
  EXPECT_DOUBLE_EQ(FalseShareAtRecall(positive, {}, 0.95), 0);
}

TEST(ConfidenceTest, RiskGrowsAsLessSureAnswersAreGiven) {
  const auto curve = RiskCoverage({{.confidence = 4, .right = true},
                                   {.confidence = 3, .right = true},
                                   {.confidence = 1, .right = false},
                                   {.confidence = 2, .right = false}},
                                  4);
  ASSERT_EQ(curve.size(), 4U);
  EXPECT_DOUBLE_EQ(curve[1].coverage, 0.5);
  EXPECT_DOUBLE_EQ(curve[1].risk, 0);
  EXPECT_DOUBLE_EQ(curve[1].threshold, 3);
  EXPECT_DOUBLE_EQ(curve[3].risk, 0.5);
}

TEST(ConfidenceTest, EqualConfidenceIsAnsweredTogetherAndWeightsCount) {
  const auto curve = RiskCoverage(
      {{.confidence = 1, .right = true}, {.confidence = 1, .weight = 3}}, 10);
  ASSERT_EQ(curve.size(), 1U);
  EXPECT_DOUBLE_EQ(curve[0].coverage, 1);
  EXPECT_DOUBLE_EQ(curve[0].risk, 0.75);
  EXPECT_TRUE(RiskCoverage({}, 10).empty());
}

}  // namespace
}  // namespace nexus::eval
