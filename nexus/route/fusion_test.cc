#include "nexus/route/fusion.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace nexus::route {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<int> Tools(const std::vector<Candidate>& candidates) {
  std::vector<int> tools;
  for (const Candidate& c : candidates) tools.push_back(c.tool);
  return tools;
}

TEST(RankToolsTest, OrdersByScoreThenTool) {
  const std::vector<float> scores = {0.1F, 0.5F, 0.5F, -0.2F};
  const std::vector<int> scope = {0, 1, 2, 3};
  EXPECT_THAT(RankTools(scores, scope), ElementsAre(1, 2, 0, 3));
  EXPECT_THAT(RankTools(scores, scope, {.depth = 2}), ElementsAre(1, 2));
  EXPECT_THAT(RankTools({}, scope), IsEmpty());
}

TEST(RankToolsTest, StaysInScopeAndLeavesNanOut) {
  const std::vector<float> scores = {NAN, 0.5F, 0.9F, 0};
  const std::vector<int> scope = {0, 1, 3};
  EXPECT_THAT(RankTools(scores, scope), ElementsAre(1, 3));
  EXPECT_THAT(RankTools(scores, scope, {.scores_are_lexical = true}),
              ElementsAre(1));
}

TEST(FuseTest, SumsReciprocalRanks) {
  const std::vector<int> dense_order = {0, 1, 2};
  const std::vector<int> bm25_order = {2, 1};
  const auto fused =
      Fuse({.dense_order = dense_order, .bm25_order = bm25_order}, 5);
  // 1/61 + 0, 1/62 + 1/62, 1/63 + 1/61.
  EXPECT_THAT(Tools(fused), ElementsAre(2, 1, 0));
  EXPECT_FLOAT_EQ(fused[0].score, 1.0F / 63 + 1.0F / 61);
  EXPECT_EQ(fused[0].dense_rank, 3);
  EXPECT_EQ(fused[0].bm25_rank, 1);
  EXPECT_EQ(fused[2].bm25_rank, 0);
}

TEST(FuseTest, BreaksTiesByCosineThenTool) {
  const std::vector<float> dense = {0.2F, 0.8F};
  const std::vector<int> forth = {0, 1};
  const std::vector<int> back = {1, 0};
  const auto fused =
      Fuse({.dense = dense, .dense_order = back, .bm25_order = forth}, 5);
  EXPECT_FLOAT_EQ(fused[0].score, fused[1].score);
  EXPECT_THAT(Tools(fused), ElementsAre(1, 0));
}

TEST(FuseTest, PutsAnExactNameFirst) {
  const std::vector<int> order = {0, 1, 2, 3};
  const std::vector<NameMention> mentions = {
      {.offset_bytes = 0, .tools = {7}, .plain_word = false}};
  const std::vector<float> dense = {0.9F, 0.8F, 0.7F, 0.6F, 0, 0, 0, 0};
  const auto fused = Fuse({.dense = dense,
                           .dense_order = order,
                           .bm25_order = order,
                           .mentions = mentions},
                          2);
  EXPECT_THAT(Tools(fused), ElementsAre(7, 0));
  EXPECT_TRUE(fused[0].exact_name);
  EXPECT_FALSE(fused[1].exact_name);
}

TEST(FuseTest, KeepsSeveralNamesInOrderOfAppearance) {
  const std::vector<int> order = {0, 1, 2, 3};
  const std::vector<NameMention> mentions = {
      {.offset_bytes = 0, .tools = {3}, .plain_word = false},
      {.offset_bytes = 9, .tools = {0}, .plain_word = false},
      {.offset_bytes = 20, .tools = {1, 2}, .plain_word = false}};
  EXPECT_THAT(Tools(Fuse({.dense_order = order, .mentions = mentions}, 5)),
              ElementsAre(3, 0, 1, 2));
  // Each mention keeps its best tool even below top_k.
  EXPECT_THAT(Tools(Fuse({.dense_order = order, .mentions = mentions}, 1)),
              ElementsAre(3, 0, 1));
}

TEST(FuseTest, APlainWordIsAmongTheCandidatesButNotFirst) {
  const std::vector<int> order = {0, 1, 2, 3};
  const std::vector<NameMention> mentions = {
      {.offset_bytes = 0, .tools = {3}, .plain_word = true}};
  const auto fused = Fuse({.dense_order = order, .mentions = mentions}, 2);
  EXPECT_THAT(Tools(fused), ElementsAre(0, 1, 3));
  EXPECT_FALSE(fused[2].exact_name);
}

TEST(FuseTest, GivesNothingForNothing) { EXPECT_THAT(Fuse({}, 5), IsEmpty()); }

}  // namespace
}  // namespace nexus::route
