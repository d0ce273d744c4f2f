#include "nexus/route/several_tools.h"

#include <limits>
#include <vector>

#include "gmock/gmock.h"

namespace nexus::route {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int kScope[] = {0, 1, 2};
constexpr int kNoTwins[] = {0, 1, 2};

TEST(SeveralToolsTest, ShortClausesArePartsOfAnEnumeration) {
  const std::vector<std::string> clauses = {
      "mail Ann the sum", "Bob too please", "and  then\tclose the issue"};
  EXPECT_THAT(PossibleWishes(clauses), ElementsAre(0, 2));
  EXPECT_THAT(PossibleWishes({}), IsEmpty());
}

TEST(SeveralToolsTest, AWishIsNearAndClearlyAhead) {
  const auto tool = [](std::vector<float> dense) {
    return WishOf(0, dense, kScope, kNoTwins).tool;
  };
  EXPECT_EQ(tool({0.2F, 0.6F, 0.5F}), 1);
  EXPECT_EQ(tool({0.2F, 0.45F, 0.1F}), -1);  // not near enough
  EXPECT_EQ(tool({0.2F, 0.6F, 0.58F}), -1);  // between two
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(tool({nan, 0.6F, nan}), 1);
  EXPECT_EQ(tool({nan, nan, nan}), -1);
}

TEST(SeveralToolsTest, TwinsAreNoRivalsAndOneWish) {
  constexpr int kTwins[] = {7, 7, 8};
  const std::vector<float> dense = {0.61F, 0.6F, 0.1F};
  EXPECT_EQ(WishOf(0, dense, kScope, kTwins).tool, 0);
  const std::vector<Wish> wishes = {{.clause = 0, .tool = 0},
                                    {.clause = 1, .tool = 1}};
  EXPECT_THAT(SeveralWishes(wishes, kTwins), IsEmpty());
  EXPECT_EQ(SeveralWishes(wishes, kNoTwins).size(), 2U);
}

TEST(SeveralToolsTest, OnlyToolsOfTheScopeAreWished) {
  constexpr int kOne[] = {2};
  const std::vector<float> dense = {0.9F, 0.8F, 0.6F};
  EXPECT_EQ(WishOf(0, dense, kOne, kNoTwins).tool, 2);
}

TEST(SeveralToolsTest, EachToolIsWishedOnceInTheQuerysOrder) {
  const std::vector<Wish> wishes = {{.clause = 0, .tool = 2},
                                    {.clause = 1, .tool = -1},
                                    {.clause = 2, .tool = 0},
                                    {.clause = 3, .tool = 2}};
  const std::vector<Wish> several = SeveralWishes(wishes, kNoTwins);
  ASSERT_EQ(several.size(), 2U);
  EXPECT_EQ(several[0].tool, 2);
  EXPECT_EQ(several[1].tool, 0);
  EXPECT_EQ(several[1].clause, 2U);
}

}  // namespace
}  // namespace nexus::route
