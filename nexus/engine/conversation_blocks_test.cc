#include "nexus/engine/conversation_blocks.h"

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/engine/session.h"
#include "nexus/engine/testing/tiny_engine.h"

namespace nexus::engine {
namespace {

using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::NotNull;

class ConversationBlocksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(tiny_, testing::TinyEngine::Create({}));
    tool_ = testing::SampleTool();
    ASSERT_OK_AND_ASSIGN(session_, Session::Create(&tiny_->engine()));
    ASSERT_OK_AND_ASSIGN(first_, PlanAfter({}));
    ASSERT_OK(session_->Prepare(first_, {.tier = Tier::kPrefill}).status());
  }

  // A question behind these turns.
  Result<PromptPlan> PlanAfter(std::vector<llm::ChatMessage> turns) {
    turns.push_back({.role = "user", .content = "A berth for the Ida"});
    return tiny_->engine().planner().PlanCall(
        turns, {&tool_, 1}, ArgumentMode::kSchema, tool_.name);
  }
  static std::vector<llm::ChatMessage> Turns(const std::string& text) {
    return {{.role = "user", .content = text},
            {.role = "assistant", .content = "Noted."}};
  }

  std::unique_ptr<testing::TinyEngine> tiny_;
  schema::ToolSchema tool_;
  std::unique_ptr<Session> session_;
  PromptPlan first_;
  const PrepareOptions splice_ = {.tier = Tier::kSplice,
                                  .policy = kv::RepairPolicy::kNone};
};

// No block was compiled or learned: what is spliced later can only be this.
TEST_F(ConversationBlocksTest, ASchemaIsSplicedFromEarlierInTheConversation) {
  ASSERT_OK_AND_ASSIGN(const auto block, session_->Remember(first_, tool_));
  ASSERT_THAT(block, NotNull());
  ASSERT_OK_AND_ASSIGN(const PromptPlan second, PlanAfter(Turns("Good day")));
  ASSERT_THAT(second.history.size(), Gt(first_.history.size()));
  ASSERT_OK_AND_ASSIGN(const TierReport report,
                       session_->Prepare(second, splice_));
  EXPECT_EQ(report.tier, Tier::kSplice);
  // The store keeps nothing of it.
  ASSERT_OK_AND_ASSIGN(const auto stored, tiny_->engine().store()->List());
  EXPECT_TRUE(stored.empty());
  EXPECT_EQ(report.block_file, block->path());
  EXPECT_DOUBLE_EQ(report.shared_history,
                   static_cast<double>(first_.history.size()) /
                       static_cast<double>(second.history.size()));
}

// Moved nowhere, the cells are what was decoded: the rotation back and forth
// must cost no more than its rounding.
TEST_F(ConversationBlocksTest, AtItsOwnPlaceItIsThePrefill) {
  const std::vector<float> wanted(session_->logits().begin(),
                                  session_->logits().end());
  ASSERT_OK(session_->Remember(first_, tool_).status());
  ASSERT_OK(session_->TruncateTo(first_.history.size()));
  ASSERT_OK_AND_ASSIGN(const TierReport report,
                       session_->Prepare(first_, splice_));
  ASSERT_EQ(report.tier, Tier::kSplice);
  EXPECT_DOUBLE_EQ(report.shared_history, 1);
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_NEAR(session_->logits()[i], wanted[i], 0.02) << i;
  }
}

TEST_F(ConversationBlocksTest, AChangedConversationHasNone) {
  ASSERT_OK(session_->Remember(first_, tool_).status());
  ConversationBlocks blocks;
  std::vector<llm::Token> history = first_.history;
  history.push_back(7);
  ASSERT_OK_AND_ASSIGN(const auto block, session_->Remember(first_, tool_));
  blocks.Keep(first_.history, block);
  EXPECT_THAT(blocks.Find(history, first_.block).block, NotNull());
  history[1] += 1;
  EXPECT_EQ(blocks.Find(history, first_.block).block, nullptr);
  // Shortened to before the place.
  history.resize(first_.history.size() - 1);
  EXPECT_EQ(blocks.Find(history, first_.block).block, nullptr);
  EXPECT_EQ(blocks.Find({}, first_.block).block, nullptr);
}

TEST_F(ConversationBlocksTest, AnotherSessionsBlocksAreNotUsed) {
  ASSERT_OK(session_->Remember(first_, tool_).status());
  ASSERT_OK_AND_ASSIGN(auto other, Session::Create(&tiny_->engine()));
  ASSERT_OK_AND_ASSIGN(const PromptPlan second, PlanAfter(Turns("Good day")));
  ASSERT_OK_AND_ASSIGN(const TierReport report,
                       other->Prepare(second, splice_));
  EXPECT_EQ(report.tier, Tier::kPrefill);
  // Nor does it take them for its own at the same place.
  ASSERT_OK(other->TruncateTo(0));
  ASSERT_OK(other->Prepare(first_, {.tier = Tier::kPrefill}).status());
  ASSERT_OK_AND_ASSIGN(const auto first, session_->Remember(first_, tool_));
  ASSERT_OK_AND_ASSIGN(const auto its_own, other->Remember(first_, tool_));
  EXPECT_NE(its_own->path(), first->path());
  EXPECT_EQ(its_own->metadata().context_count, 1);
}

TEST_F(ConversationBlocksTest, WhatIsNotHeldExactlyIsNotKept) {
  ASSERT_OK(session_->Remember(first_, tool_).status());
  ASSERT_OK_AND_ASSIGN(const PromptPlan second, PlanAfter(Turns("Good day")));
  ASSERT_OK_AND_ASSIGN(const TierReport report,
                       session_->Prepare(second, splice_));
  ASSERT_EQ(report.tier, Tier::kSplice);
  // Spliced cells would come back as their own mean.
  ASSERT_OK_AND_ASSIGN(const auto block, session_->Remember(second, tool_));
  EXPECT_EQ(block, nullptr);
}

TEST_F(ConversationBlocksTest, TheLeastRecentlyUsedGoes) {
  ConversationBlocks blocks;
  std::vector<PromptPlan> plans;
  for (size_t i = 0; i <= ConversationBlocks::kLimit; ++i) {
    tool_ = testing::SampleTool(static_cast<int>(i) + 1);
    ASSERT_OK_AND_ASSIGN(const PromptPlan plan, PlanAfter({}));
    ASSERT_OK(session_->TruncateTo(0));
    ASSERT_OK(session_->Prepare(plan, {.tier = Tier::kPrefill}).status());
    ASSERT_OK_AND_ASSIGN(auto block, session_->Remember(plan, tool_));
    blocks.Keep(plan.history, std::move(block));
    plans.push_back(plan);
    if (i == 1) blocks.Find(plans[0].history, plans[0].block);
  }
  EXPECT_EQ(blocks.size(), ConversationBlocks::kLimit);
  EXPECT_THAT(blocks.Find(plans[0].history, plans[0].block).block, NotNull());
  EXPECT_EQ(blocks.Find(plans[1].history, plans[1].block).block, nullptr);
}

}  // namespace
}  // namespace nexus::engine
