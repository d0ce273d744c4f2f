#include "nexus/engine/list_order.h"

#include <algorithm>
#include <random>
#include <set>

#include "gmock/gmock.h"

namespace nexus::engine {
namespace {

using ::testing::ElementsAre;

schema::ToolSchema Tool(const std::string& server, const std::string& name,
                        const std::string& description = "") {
  schema::ToolSchema tool;
  tool.server = server;
  tool.name = name;
  tool.description = description;
  return tool;
}

std::vector<std::string> Names(const std::vector<schema::ToolSchema>& tools,
                               const std::vector<uint32_t>& stability) {
  std::vector<std::string> names;
  for (const size_t i : CanonicalOrder(tools, stability)) {
    names.push_back(schema::ToolId(tools[i]) + tools[i].description);
  }
  return names;
}

std::vector<std::string> NamesNow(const std::vector<schema::ToolSchema>& tools,
                                  const ListHistory& history) {
  return Names(tools, history.StabilityOf(tools));
}

TEST(CanonicalOrderTest, SortsByStabilityThenServerThenName) {
  const std::vector<schema::ToolSchema> tools = {
      Tool("b", "x"), Tool("a", "z"), Tool("a", "y"), Tool("c", "w")};
  EXPECT_THAT(Names(tools, {}), ElementsAre("a/y", "a/z", "b/x", "c/w"));
  EXPECT_THAT(Names(tools, {1, 1, 1, 2}),
              ElementsAre("c/w", "a/y", "a/z", "b/x"));
}

TEST(CanonicalOrderTest, IsTheSameWhateverOrderTheToolsComeIn) {
  std::vector<schema::ToolSchema> tools;
  for (int i = 0; i < 20; ++i) {
    tools.push_back(Tool("s" + std::to_string(i % 3),
                         "t" + std::to_string(i / 2), std::to_string(i)));
  }
  ListHistory history;
  history.Observe(std::span(tools).first(12));
  history.Observe(tools);
  const auto expected = NamesNow(tools, history);
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::shuffle(tools.begin(), tools.end(), random);
    EXPECT_EQ(NamesNow(tools, history), expected);
  }
}

TEST(CanonicalOrderTest, OfNothingIsNothing) {
  EXPECT_TRUE(CanonicalOrder({}).empty());
}

TEST(ListHistoryTest, AToolThatComesLaterStandsBehindThoseThatWereThere) {
  ListHistory history;
  const std::vector<schema::ToolSchema> first = {Tool("m", "b"),
                                                 Tool("m", "c")};
  history.Observe(first);
  const std::vector<schema::ToolSchema> second = {
      Tool("m", "a"), Tool("m", "b"), Tool("m", "c")};
  // Before it is observed as well as after.
  EXPECT_THAT(NamesNow(second, history), ElementsAre("m/b", "m/c", "m/a"));
  history.Observe(second);
  EXPECT_THAT(NamesNow(second, history), ElementsAre("m/b", "m/c", "m/a"));
}

TEST(ListHistoryTest, AChangeMovesNoOtherTool) {
  std::vector<schema::ToolSchema> all;
  for (int i = 0; i < 8; ++i) all.push_back(Tool("s", std::to_string(i)));
  ListHistory history;
  history.Observe(all);
  std::vector<schema::ToolSchema> without = all;
  without.erase(without.begin() + 2);
  auto expected = NamesNow(all, history);
  expected.erase(std::find(expected.begin(), expected.end(), "s/2"));
  history.Observe(without);
  EXPECT_EQ(NamesNow(without, history), expected);
  history.Observe(all);
  expected.push_back("s/2");
  EXPECT_EQ(NamesNow(all, history), expected);
}

TEST(ListHistoryTest, AToolOfAnotherSchemaIsAnotherTool) {
  ListHistory history;
  const schema::ToolSchema old_tool = Tool("s", "t", "Old.");
  history.Observe({&old_tool, 1});
  EXPECT_EQ(history.Stability(old_tool), ListHistory::kMostStable);
  EXPECT_LT(history.Stability(Tool("s", "t", "New.")),
            ListHistory::kMostStable);
}

}  // namespace
}  // namespace nexus::engine
