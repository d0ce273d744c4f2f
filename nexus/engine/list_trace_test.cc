#include "nexus/engine/list_trace.h"

#include <algorithm>

#include "gmock/gmock.h"

#include "nexus/engine/list_prepare.h"
#include "nexus/engine/testing/tiny_engine.h"

namespace nexus::engine {
namespace {

using testing::SampleTool;
using testing::TinyEngine;

std::vector<schema::ToolSchema> SomeTools(int count) {
  std::vector<schema::ToolSchema> tools;
  for (int i = 0; i < count; ++i) tools.push_back(SampleTool(i));
  return tools;
}

TEST(ListTraceTest, EachListDiffersFromTheOneBeforeAndKeepsHalfTheTools) {
  const auto trace = MakeListTrace({.tools = 9, .requests = 100});
  ASSERT_EQ(trace.size(), 100U);
  EXPECT_EQ(trace[0].size(), 9U);
  for (size_t i = 0; i < trace.size(); ++i) {
    EXPECT_GE(2 * trace[i].size(), 9U);
    std::vector<size_t> sorted = trace[i];
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(std::adjacent_find(sorted.begin(), sorted.end()), sorted.end());
    EXPECT_LT(sorted.back(), 9U);
  }
  EXPECT_EQ(trace, MakeListTrace({.tools = 9, .requests = 100}));
  EXPECT_NE(trace, MakeListTrace({.tools = 9, .requests = 100, .seed = 2}));
}

class ListTraceCostTest : public ::testing::Test {
 protected:
  void SetUp() override {
    TinyEngine::Options options;
    options.context_tokens = 8192;
    options.model.context_train = 8192;
    auto tiny = TinyEngine::Create(options);
    ASSERT_TRUE(tiny.ok()) << tiny.status();
    tiny_ = std::move(tiny).value();
  }
  std::unique_ptr<TinyEngine> tiny_;
};

TEST_F(ListTraceCostTest, StableFirstDecodesLessThanTheCallersOrder) {
  const auto tools = SomeTools(10);
  const auto trace = MakeListTrace({.tools = 10, .requests = 60});
  const auto share = [&](ListOrder order) {
    const auto cost =
        CountListTrace(tiny_->engine().planner(), tools, trace, order);
    EXPECT_OK(cost);
    EXPECT_LE(cost->decoded_with_trie, cost->decoded_with_session);
    EXPECT_LT(cost->decoded_with_session, cost->total_tokens);
    return static_cast<double>(cost->decoded_with_trie) /
           static_cast<double>(cost->total_tokens);
  };
  EXPECT_LT(share(ListOrder::kName), share(ListOrder::kCaller));
  EXPECT_LT(share(ListOrder::kStableFirst), share(ListOrder::kName));
}

TEST_F(ListTraceCostTest, ASessionDecodesExactlyWhatWasCounted) {
  const Engine& engine = tiny_->engine();
  const auto tools = SomeTools(4);
  const auto trace = MakeListTrace({.tools = 4, .requests = 8});
  ASSERT_OK_AND_ASSIGN(
      const ListTraceCost expected,
      CountListTrace(engine.planner(), tools, trace, ListOrder::kStableFirst));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&engine));
  int64_t decoded = 0;
  for (const auto& list : ArrangeTrace(tools, trace, ListOrder::kStableFirst)) {
    ASSERT_OK_AND_ASSIGN(
        const PromptPlan plan,
        engine.planner().PlanList(
            testing::SampleConversation("Book it, please."), list, ""));
    ASSERT_OK_AND_ASSIGN(const TierReport report, session->Prepare(plan, {}));
    // A list that only moved is the same list again: then the question is
    // reused too.
    const auto list_tokens =
        static_cast<int>(plan.history.size() + plan.block.size());
    decoded += list_tokens - report.restored_tokens -
               std::min(report.reused_tokens, list_tokens);
    ASSERT_OK(StoreList(*session, plan));
  }
  EXPECT_EQ(decoded, expected.decoded_with_trie);
}

}  // namespace
}  // namespace nexus::engine
