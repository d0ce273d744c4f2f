#include "nexus/eval/gold_table.h"

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/route/testing/sample_tools.h"

namespace nexus::eval {
namespace {

using route::Tool;
using ::testing::ElementsAre;

std::shared_ptr<const route::ToolIndex> Registry() {
  auto index = route::ToolIndex::Build(
      {Tool("read_file", "Reads a file.", "disk"),
       Tool("send_mail", "Sends a mail.", "mail"),
       Tool("read_file", "Reads a file.", "cloud"),  // twin of 0
       Tool("list_files", "Lists files.", "disk"),
       Tool("read_file", "Another thing.", "odd")},
      nullptr);
  EXPECT_OK(index);
  return index.value();
}

GoldTable Resolve(std::vector<std::string> gold, bool any = false,
                  const TwinLabels& twins = {}) {
  LabelledQuery query;
  query.id = "q";
  query.gold = std::move(gold);
  query.gold_any = any;
  return ResolveGold(*Registry(), {query}, twins);
}

TEST(GoldTableTest, ANameStandsForAllItsToolsAndAnIdForOneAndItsTwins) {
  EXPECT_THAT(Resolve({"read_file"}).gold[0].needed,
              ElementsAre(ElementsAre(0, 2, 4)));
  EXPECT_THAT(Resolve({"disk/read_file"}).gold[0].needed,
              ElementsAre(ElementsAre(0, 2)));
}

TEST(GoldTableTest, ALabelledTwinOfARightToolIsRight) {
  const TwinLabels twins = {{"disk/list_files", "files"},
                            {"odd/read_file", "files"}};
  EXPECT_THAT(Resolve({"list_files"}, false, twins).gold[0].right,
              ElementsAre(3, 4));
  // Two labels for tools that count as one are one need.
  EXPECT_FALSE(Resolve({"disk/list_files", "odd/read_file"}, false, twins)
                   .gold[0]
                   .several_needed());
}

TEST(GoldTableTest, UnknownLabelsAreListedAndTheRestIsKept) {
  const GoldTable part = Resolve({"send_mail", "fly"}, true);
  EXPECT_THAT(part.unknown, ElementsAre("query q: no tool 'fly'"));
  EXPECT_THAT(part.gold[0].right, ElementsAre(1));
  const GoldTable none = Resolve({"fly"});
  EXPECT_EQ(none.left_out, 1);
  EXPECT_TRUE(none.queries.empty());
  // Needing both, it would become easier for the lack of one.
  EXPECT_EQ(Resolve({"send_mail", "fly"}).left_out, 1);
  const GoldTable out_of_scope = Resolve({});
  EXPECT_EQ(out_of_scope.left_out, 0);
  EXPECT_FALSE(out_of_scope.gold[0].in_scope());
}

TEST(GoldTableTest, TwoNamesOfOneToolAreOneNeed) {
  EXPECT_FALSE(
      Resolve({"disk/read_file", "cloud/read_file"}).gold[0].several_needed());
  EXPECT_TRUE(Resolve({"list_files", "send_mail"}).gold[0].several_needed());
  EXPECT_FALSE(
      Resolve({"list_files", "send_mail"}, true).gold[0].several_needed());
}

TEST(GoldTableTest, HitsCountSetsWhereAllAreNeeded) {
  const std::vector<int> order = {3, 2, 4, 0};
  const Gold both = Resolve({"list_files", "send_mail"}).gold[0];
  const Hits hits = CountHits(both, order);
  EXPECT_TRUE(hits.first);
  EXPECT_DOUBLE_EQ(hits.recall_at_5, 0.5);
  EXPECT_FALSE(hits.complete_at_5);
  const Gold either = Resolve({"list_files", "send_mail"}, true).gold[0];
  EXPECT_DOUBLE_EQ(CountHits(either, order).recall_at_5, 1);
  const Gold twin = Resolve({"disk/read_file"}).gold[0];
  EXPECT_FALSE(CountHits(twin, order).first);
  EXPECT_DOUBLE_EQ(CountHits(twin, order).recall_at_5, 1);  // the twin, 2
  EXPECT_DOUBLE_EQ(CountHits(twin, {}).recall_at_5, 0);
}

}  // namespace
}  // namespace nexus::eval
