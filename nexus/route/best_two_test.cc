#include "nexus/route/best_two.h"

#include <limits>
#include <vector>

#include "gtest/gtest.h"

namespace nexus::route {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

BestTwo Find(const std::vector<float>& scores, const std::vector<int>& scope,
             const std::vector<int>& twins = {0, 1, 2}) {
  return FindBestTwo(scores, scope, twins);
}

TEST(BestTwoTest, TwinsOfTheBestAreNoRivals) {
  EXPECT_EQ(Find({0.3F, 0.9F, 0.5F}, {0, 1, 2}).best, 1);
  EXPECT_EQ(Find({0.3F, 0.9F, 0.5F}, {0, 1, 2}).rival, 2);
  EXPECT_EQ(Find({0.3F, 0.9F, 0.5F}, {0, 1, 2}, {7, 8, 8}).rival, 0);
  EXPECT_EQ(Find({0.3F, 0.9F, 0.5F}, {1, 2}, {7, 8, 8}).rival, -1);
}

TEST(BestTwoTest, EqualScoresAreInTheScopesOrder) {
  EXPECT_EQ(Find({0.5F, 0.5F, 0.5F}, {2, 0, 1}).best, 2);
  EXPECT_EQ(Find({0.5F, 0.5F, 0.5F}, {2, 0, 1}).rival, 0);
}

// Wherever in the scope it stands.
TEST(BestTwoTest, WhatIsNoNumberIsBehindEveryOther) {
  for (const int odd : {0, 1, 2}) {
    std::vector<float> scores = {0.2F, 0.2F, 0.2F};
    scores[static_cast<size_t>(odd)] = kNan;
    const BestTwo found = Find(scores, {0, 1, 2});
    EXPECT_NE(found.best, odd);
    EXPECT_NE(found.rival, odd);
  }
  EXPECT_EQ(Find({kNan, kNan, kNan}, {0, 1, 2}).best, 0);
}

TEST(BestTwoTest, AnEmptyScopeHasNone) {
  EXPECT_EQ(Find({0.5F}, {}).best, -1);
  EXPECT_EQ(Find({0.5F}, {}).rival, -1);
}

}  // namespace
}  // namespace nexus::route
