#include "nexus/engine/next_turn.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "gtest/gtest.h"

#include "nexus/base/test_util.h"
#include "nexus/engine/compile_tools.h"
#include "nexus/engine/testing/tiny_engine.h"

namespace nexus::engine {
namespace {

using llm::ChatMessage;

class NextTurnTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(tiny_, testing::TinyEngine::Create({}));
    ASSERT_OK(CompileTools(tiny_->engine(), {&tool_, 1}, {}).status());
    ASSERT_OK_AND_ASSIGN(session_, Session::Create(&tiny_->engine()));
    messages_ = testing::SampleConversation("A berth for the Ida?");
    ASSERT_OK_AND_ASSIGN(const PromptPlan plan, PlanFor(messages_, tool_));
    PrepareOptions options;
    options.tier = Tier::kSplice;
    options.policy = kv::RepairPolicy::kNone;
    ASSERT_OK_AND_ASSIGN(const TierReport report,
                         session_->Prepare(plan, options));
    ASSERT_EQ(report.tier, Tier::kSplice);
    const std::vector<llm::Token> call = {5, 6, 7};
    ASSERT_OK(session_->Append(call, llm::Logits::kLast));
    messages_.push_back({.role = "assistant", .content = "{\"vessel\":1}"});
    messages_.push_back({.role = "user", .content = "And for the Maud?"});
  }

  Result<PromptPlan> PlanFor(const std::vector<ChatMessage>& messages,
                             const schema::ToolSchema& tool) {
    return tiny_->engine().planner().PlanCall(messages, {&tool, 1},
                                              ArgumentMode::kSchema, tool.name);
  }
  std::span<const ChatMessage> WithoutTheNewTurn() const {
    return std::span(messages_).first(messages_.size() - 1);
  }
  Result<NextTurnReport> Idle(const NextTurnOptions& options) {
    return PrepareNextTurn(*session_, tiny_->engine().planner(),
                           WithoutTheNewTurn(), options);
  }
  std::vector<float> LogitsOf(Session& session) {
    return {session.logits().begin(), session.logits().end()};
  }

  std::unique_ptr<testing::TinyEngine> tiny_;
  const schema::ToolSchema tool_ = testing::SampleTool();
  std::unique_ptr<Session> session_;
  std::vector<ChatMessage> messages_;
};

TEST_F(NextTurnTest, HealsASplicedSessionToTheExactHistory) {
  ASSERT_LT(session_->exact_count(), session_->tokens().size());
  ASSERT_OK_AND_ASSIGN(const NextTurnReport report, Idle({}));
  EXPECT_TRUE(report.history_ready);
  EXPECT_FALSE(report.tool_ready);
  EXPECT_GT(report.reused_tokens, 0);
  EXPECT_EQ(session_->exact_count(), session_->tokens().size());

  // The next turn decodes nothing of the history again.
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, PlanFor(messages_, tool_));
  EXPECT_EQ(session_->tokens().size(), plan.history.size());
  ASSERT_OK_AND_ASSIGN(const TierReport next, session_->Prepare(plan, {}));
  EXPECT_EQ(static_cast<size_t>(next.reused_tokens), plan.history.size());
}

// Nothing was learned or decoded as text before: the cells of the tool that was
// spliced come from the idle work.
TEST_F(NextTurnTest, AKeptToolIsSplicedFromTheConversationTurnsLater) {
  const schema::ToolSchema other = testing::SampleTool(3);
  ASSERT_OK_AND_ASSIGN(
      const NextTurnReport report,
      Idle({.likely_tool = &other, .keep_tools = {&tool_, &other}}));
  EXPECT_TRUE(report.tool_ready);
  EXPECT_EQ(report.kept_tools, 2);
  const size_t kept_behind = session_->tokens().size();

  messages_.push_back({.role = "assistant", .content = "None is free."});
  messages_.push_back({.role = "user", .content = "And tomorrow?"});
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, PlanFor(messages_, tool_));
  PrepareOptions options;
  options.tier = Tier::kSplice;
  options.policy = kv::RepairPolicy::kNone;
  ASSERT_OK_AND_ASSIGN(const TierReport next, session_->Prepare(plan, options));
  EXPECT_EQ(next.tier, Tier::kSplice);
  EXPECT_GT(next.shared_history, 0.5);
  EXPECT_LT(static_cast<double>(plan.history.size()) * next.shared_history,
            static_cast<double>(kept_behind));
}

TEST_F(NextTurnTest, WithoutALikelyToolTheHistoryIsLeftBare) {
  ASSERT_OK_AND_ASSIGN(const NextTurnReport report,
                       Idle({.keep_tools = {&tool_}}));
  EXPECT_EQ(report.kept_tools, 1);
  EXPECT_FALSE(report.tool_ready);
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, PlanFor(messages_, tool_));
  EXPECT_EQ(session_->tokens().size(), plan.history.size());
}

TEST_F(NextTurnTest, TheRightGuessMakesTheNextTurnAnExactPrefix) {
  ASSERT_OK_AND_ASSIGN(const NextTurnReport report,
                       Idle({.likely_tool = &tool_}));
  EXPECT_TRUE(report.tool_ready);
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, PlanFor(messages_, tool_));
  ASSERT_OK_AND_ASSIGN(const TierReport next, session_->Prepare(plan, {}));
  EXPECT_EQ(next.tier, Tier::kExactPrefix);
  const std::vector<float> prepared = LogitsOf(*session_);

  // The same as if it had been prefilled when asked for, up to batch splits.
  ASSERT_OK_AND_ASSIGN(auto fresh, Session::Create(&tiny_->engine()));
  ASSERT_OK(fresh->Prepare(plan, {.tier = Tier::kPrefill}).status());
  const std::vector<float> expected = LogitsOf(*fresh);
  ASSERT_EQ(prepared.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(prepared[i], expected[i], 2e-3F) << i;
  }
}

TEST_F(NextTurnTest, AWrongGuessCostsTheNextTurnNothing) {
  const schema::ToolSchema other = testing::SampleTool(1);
  ASSERT_OK(Idle({.likely_tool = &other}).status());
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, PlanFor(messages_, tool_));
  ASSERT_OK_AND_ASSIGN(const TierReport next, session_->Prepare(plan, {}));
  EXPECT_EQ(next.tier, Tier::kSplice);
  EXPECT_EQ(static_cast<size_t>(next.reused_tokens), plan.history.size());
}

TEST_F(NextTurnTest, StopsBetweenPiecesAndWhatIsDoneIsUsed) {
  std::atomic<bool> cancel{true};
  ASSERT_OK_AND_ASSIGN(const NextTurnReport report,
                       Idle({.likely_tool = &tool_, .cancel = &cancel}));
  EXPECT_FALSE(report.history_ready);
  EXPECT_EQ(report.pieces, 0);
  cancel = false;
  ASSERT_OK_AND_ASSIGN(const NextTurnReport rest,
                       Idle({.likely_tool = &tool_, .cancel = &cancel}));
  EXPECT_TRUE(rest.tool_ready);
  EXPECT_GE(rest.pieces * static_cast<int>(kIdlePieceTokens),
            rest.decoded_tokens);
}

TEST_F(NextTurnTest, AConversationThatOutgrewTheContextIsAnError) {
  messages_.insert(messages_.begin(),
                   {.role = "user", .content = std::string(40000, 'x')});
  EXPECT_EQ(Idle({}).status().code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace nexus::engine
