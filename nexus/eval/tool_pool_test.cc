#include "nexus/eval/tool_pool.h"

#include <algorithm>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/route/testing/sample_tools.h"

namespace nexus::eval {
namespace {

using route::Tool;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsSubsetOf;
using ::testing::Not;

// Four servers of ten tools, so that tool 10 s + i is "tool i of server s";
// tool 39 is a twin of tool 0.
std::shared_ptr<const route::ToolIndex> Registry() {
  std::vector<schema::ToolSchema> tools;
  for (int i = 0; i < 39; ++i) {
    const std::string topic = i % 10 < 3 ? " about weather" : " about music";
    tools.push_back(Tool("t" + std::to_string(i),
                         "Number " + std::to_string(i) + topic,
                         "s" + std::to_string(i / 10)));
  }
  tools.push_back(Tool("t0", "Number 0 about weather", "s3"));
  auto index = route::ToolIndex::Build(std::move(tools), nullptr);
  EXPECT_OK(index);
  return index.value();
}

class ToolPoolTest : public ::testing::Test {
 protected:
  std::vector<int> Make(PoolKind kind, int size, uint64_t seed = 1,
                        bool without_gold = false) {
    const GoldTable table = ResolveGold(*registry_, {query_});
    EXPECT_EQ(table.queries.size(), 1U);
    PoolMaker maker(*registry_, NearestByBm25(*registry_));
    return maker.Make(table.queries[0], table.gold[0],
                      {.kind = kind,
                       .size = size,
                       .seed = seed,
                       .without_gold = without_gold});
  }

  std::shared_ptr<const route::ToolIndex> registry_ = Registry();
  LabelledQuery query_ = [] {
    LabelledQuery query;
    query.text = "what will the weather be";
    query.gold = {"s0/t0"};
    return query;
  }();
};

TEST_F(ToolPoolTest, HoldsTheRightToolOnceAndIsOfTheSizeAskedFor) {
  for (const PoolKind kind :
       {PoolKind::kRandom, PoolKind::kNeighbour, PoolKind::kServer}) {
    const std::vector<int> pool = Make(kind, 10);
    EXPECT_EQ(pool.size(), 10U);
    EXPECT_TRUE(std::is_sorted(pool.begin(), pool.end()));
    EXPECT_EQ(std::count(pool.begin(), pool.end(), 0) +
                  std::count(pool.begin(), pool.end(), 39),
              1)
        << "of two twins, one";
  }
}

TEST_F(ToolPoolTest, PoolsAreRepeatableNestedAndDifferBySeed) {
  for (const PoolKind kind :
       {PoolKind::kRandom, PoolKind::kNeighbour, PoolKind::kServer}) {
    EXPECT_EQ(Make(kind, 10), Make(kind, 10));
    EXPECT_THAT(Make(kind, 10), IsSubsetOf(Make(kind, 25)));
    EXPECT_NE(Make(kind, 10), Make(kind, 10, 2));
  }
}

TEST_F(ToolPoolTest, HalfOfANeighbourPoolIsNear) {
  query_.gold = {"t11"};
  const std::vector<int> pool = Make(PoolKind::kNeighbour, 10);
  const auto near = std::count_if(pool.begin(), pool.end(), [](int tool) {
    return tool % 10 < 3 || tool == 39;
  });
  EXPECT_GE(near, 6);  // the tool itself and five neighbours
}

TEST_F(ToolPoolTest, AServersToolsComeFirst) {
  query_.gold = {"t11"};
  const std::vector<int> pool = Make(PoolKind::kServer, 12);
  for (int tool = 10; tool < 20; ++tool) EXPECT_THAT(pool, Contains(tool));
  EXPECT_EQ(pool.size(), 12U);
}

TEST_F(ToolPoolTest, ANearMissLosesTheToolAndItsTwinsOnly) {
  std::vector<int> pool = Make(PoolKind::kRandom, 10);
  std::erase(pool, 0);
  std::erase(pool, 39);
  EXPECT_EQ(Make(PoolKind::kRandom, 10, 1, true), pool);
  const std::vector<int> all = Make(PoolKind::kAll, 0, 1, true);
  EXPECT_EQ(all.size(), 38U);
  EXPECT_THAT(all, Not(Contains(39)));
}

TEST_F(ToolPoolTest, SeveralNeededToolsAreAllThereAndRelatedOnesAreNot) {
  query_.gold = {"t11", "t22"};
  query_.related = {"t12"};
  for (const uint64_t seed : {1, 2, 3, 4, 5}) {
    const std::vector<int> pool = Make(PoolKind::kNeighbour, 20, seed);
    EXPECT_THAT(pool, Contains(11));
    EXPECT_THAT(pool, Contains(22));
    EXPECT_THAT(pool, Not(Contains(12)));
  }
}

TEST_F(ToolPoolTest, LargerThanTheRegistryIsAllButTheTwin) {
  EXPECT_EQ(Make(PoolKind::kRandom, 1000).size(), 39U);
  EXPECT_EQ(Make(PoolKind::kAll, 0).size(), 40U);
}

TEST_F(ToolPoolTest, OutOfScopeQueriesHavePoolsToo) {
  query_.gold = {};
  EXPECT_EQ(Make(PoolKind::kRandom, 10).size(), 10U);
  const std::vector<int> pool = Make(PoolKind::kNeighbour, 10);
  EXPECT_GE(std::count_if(pool.begin(), pool.end(),
                          [](int tool) { return tool % 10 < 3; }),
            4);
  query_.within = {"t5", "t7"};
  EXPECT_THAT(Make(PoolKind::kRandom, 10), ElementsAre(5, 7));
}

TEST(PoolKindTest, NamesGoBothWays) {
  for (const PoolKind kind : {PoolKind::kAll, PoolKind::kRandom,
                              PoolKind::kNeighbour, PoolKind::kServer}) {
    EXPECT_EQ(ParsePoolKind(PoolKindName(kind)), kind);
  }
  EXPECT_FALSE(ParsePoolKind("near").has_value());
}

}  // namespace
}  // namespace nexus::eval
