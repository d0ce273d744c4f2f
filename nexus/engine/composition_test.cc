#include "nexus/engine/composition.h"

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"

namespace nexus::engine {
namespace {

using ::testing::HasSubstr;

CompositionRow Row(int blocks, double share, double lost = 0) {
  CompositionRow row;
  row.blocks = blocks;
  row.recipe = "list-hermes-generic-6-01234567";
  row.share = share;
  row.max_tokens = 700;
  row.tool_choice = {.prefill = 0.8,
                     .splice = 0.8 - lost,
                     .difference_ci95 = {-0.01 - lost, 0.01 - lost},
                     .n = 1200};
  row.args_exact = {.prefill = 0.5, .splice = 0.5, .n = 1000};
  row.kl_mean = 0.01;
  JudgeComposition({}, &row);
  return row;
}

CompositionPlace Place(int tools, int tokens = 600) {
  CompositionPlace place;
  place.tools = tools;
  place.tokens = tokens;
  place.noise_kl = 0.0002;
  return place;
}

std::string RefusalOf(std::span<const CompositionRow> rows,
                      const CompositionPlace& place) {
  const auto found = FindComposition(rows, place);
  return found.ok() ? "" : found.status().message();
}

TEST(CompositionTest, WithoutMeasurementsNothingIsAllowed) {
  EXPECT_THAT(RefusalOf({}, Place(1)), HasSubstr("aren't measured"));
}

TEST(CompositionTest, ListsUpToTheMeasuredLengthAreAllowedAndNotLongerOnes) {
  const std::vector<CompositionRow> rows = {Row(5, 0.25)};
  EXPECT_EQ(RefusalOf(rows, Place(1)), "");
  EXPECT_EQ(RefusalOf(rows, Place(5, 700)), "");
  EXPECT_THAT(RefusalOf(rows, Place(6)),
              HasSubstr("up to 5 tools, this list has 6"));
  EXPECT_THAT(RefusalOf(rows, Place(5, 701)),
              HasSubstr("up to 700 tokens, this list ends at 701"));
}

TEST(CompositionTest, TheCheapestOfTheNearestLengthIsTaken) {
  const std::vector<CompositionRow> rows = {Row(5, 0, 0.02), Row(5, 0.4),
                                            Row(5, 0.25), Row(20, 0.15)};
  ASSERT_OK_AND_ASSIGN(const CompositionRow* row,
                       FindComposition(rows, Place(4)));
  EXPECT_EQ(row->blocks, 5);
  EXPECT_DOUBLE_EQ(row->share, 0.25);
  ASSERT_OK_AND_ASSIGN(row, FindComposition(rows, Place(6)));
  EXPECT_EQ(row->blocks, 20);
}

// Twenty tools that came out well don't say that five do.
TEST(CompositionTest, ARefusalOfTheNearestLengthHoldsAndNamesTheLimit) {
  const std::vector<CompositionRow> rows = {Row(5, 0, 0.1), Row(5, 0.25, 0.021),
                                            Row(20, 0.25)};
  const std::string refusal = RefusalOf(rows, Place(3));
  EXPECT_THAT(refusal, HasSubstr("lists of 5 tools"));
  EXPECT_THAT(refusal, HasSubstr("tool choice 2.1 points below prefill's"));
  EXPECT_THAT(refusal, HasSubstr("[-3.1 to -1.1]"));
  EXPECT_THAT(refusal, HasSubstr("the limit is 0.5"));
  EXPECT_EQ(RefusalOf(rows, Place(6)), "");
}

TEST(CompositionTest, StricterBudgetsAskForTheirOwnKl) {
  const std::vector<CompositionRow> rows = {Row(5, 0.25)};
  CompositionPlace place = Place(5);
  place.budget = Budget::kBalanced;
  EXPECT_THAT(RefusalOf(rows, place),
              HasSubstr("KL 0.0100, the balanced budget allows 0.0030"));
  std::vector<CompositionRow> nearer = rows;
  nearer[0].kl_mean = 0.002;
  EXPECT_EQ(RefusalOf(nearer, place), "");
}

TEST(CompositionTest, BothFiguresAndBothCountsAreLimits) {
  CompositionRow row = Row(5, 0.25);
  EXPECT_TRUE(row.allowed);
  row.tool_choice.n = 999;
  JudgeComposition({}, &row);
  EXPECT_THAT(row.reason, HasSubstr("999 questions"));
  row = Row(5, 0.25);
  row.args_exact.splice = 0.506;
  JudgeComposition({}, &row);
  EXPECT_THAT(row.reason, HasSubstr("exact arguments 0.6 points above"));
  row.args_exact.splice = 0.505;
  JudgeComposition({}, &row);
  EXPECT_TRUE(row.allowed) << row.reason;
}

TEST(CompositionTest, AFileCanRefuseMoreThanTheLimitsButNotAllowMore) {
  Json json = CompositionRowToJson(Row(5, 0.25));
  EXPECT_TRUE(CompositionRowFromJson(json).allowed);
  json["allowed"] = false;
  json["reason"] = "by hand";
  EXPECT_EQ(CompositionRowFromJson(json).reason, "by hand");
  json = CompositionRowToJson(Row(5, 0.25, 0.03));
  EXPECT_FALSE(json["allowed"].get<bool>());
  json["allowed"] = true;
  const CompositionRow forced = CompositionRowFromJson(json);
  EXPECT_FALSE(forced.allowed);
  EXPECT_THAT(forced.reason, HasSubstr("3.0 points below"));
}

}  // namespace
}  // namespace nexus::engine
