// ChatService with a StepBatch: several answers at once.
#include "gtest/gtest.h"

#include "nexus/engine/compile_tools.h"
#include "nexus/serve/testing/chat_service_fixture.h"

namespace nexus::serve {
namespace {

class ChatServiceBatchTest : public ChatServiceFixture {
 protected:
  // Destroyed behind what uses it.
  ~ChatServiceBatchTest() override { service_.reset(); }

  void StartBatch(int members, ChatServiceOptions options = {}) {
    ASSERT_OK_AND_ASSIGN(batch_,
                         engine::StepBatch::Create(&tiny_->engine(), members));
    options.batch = batch_.get();
    Start(std::move(options));
  }

  std::unique_ptr<engine::StepBatch> batch_;
};

TEST_F(ChatServiceBatchTest, ManyAnswerAtOnce) {
  constexpr int kRequests = 10;
  ChatServiceOptions options;
  options.sessions.max_sessions = 1;  // raised to the batch's
  StartBatch(4, std::move(options));
  std::vector<ChatService::Accepted> accepted(kRequests);
  for (int i = 0; i < kRequests; ++i) {
    // Words and calls, and two of each conversation.
    ChatRequest request = i % 2 == 0
                              ? Question("Say " + std::to_string(i / 4) + ".")
                              : BerthQuestion();
    ASSERT_EQ(
        service_->Submit(std::move(request), &accepted[static_cast<size_t>(i)]),
        std::nullopt);
  }
  for (int i = 0; i < kRequests; ++i) {
    const auto events = Events(*accepted[static_cast<size_t>(i)].stream);
    ASSERT_FALSE(events.empty());
    const ChatEvent& last = events.back();
    ASSERT_EQ(last.kind, ChatEvent::Kind::kDone) << last.error.message;
    EXPECT_EQ(last.result.report["batched"], true);
    if (i % 2 == 1) {
      EXPECT_EQ(last.result.tool_calls.at(0).name, "book_berth_0");
    }
  }
  service_->Stop();
  const engine::StepBatchCounts counts = service_->batch_counts();
  EXPECT_GT(counts.tokens, counts.decodes);
  EXPECT_EQ(outcomes_.size(), static_cast<size_t>(kRequests));
  EXPECT_LE(service_->session_counts().held, 4U);
}

TEST_F(ChatServiceBatchTest, StopEndsIt) {
  StartBatch(3);
  std::vector<ChatService::Accepted> accepted(5);
  for (size_t i = 0; i < accepted.size(); ++i) {
    ChatRequest request = Question("Count to " + std::to_string(i) + ".");
    request.max_tokens = 3000;
    request.stream = true;
    ASSERT_EQ(service_->Submit(std::move(request), &accepted[i]), std::nullopt);
  }
  ASSERT_TRUE(accepted[0].stream->Pop(kLongest).has_value());
  // One leaves, and the others go on.
  accepted[0].ticket->Cancel(CancelledError("the client left"));
  EXPECT_FALSE(Events(*accepted[0].stream).empty());
  service_->Stop();
  EXPECT_EQ(service_->scheduler_counts().running, 0U);
}

// The session has forgotten the answer by the time that it is noted.
TEST_F(ChatServiceBatchTest, ItsAnswersAreAuditedLikeOthers) {
  const schema::ToolSchema tool = engine::testing::SampleTool(0);
  ASSERT_OK(engine::CompileTools(tiny_->engine(), {&tool, 1}, {}).status());
  ChatServiceOptions options;
  options.idle_work = false;
  options.audit_every = 1;
  StartBatch(2, std::move(options));
  Ask(BerthQuestion());
  ASSERT_EQ(outcomes_.size(), 1u);
  ASSERT_EQ(outcomes_[0].tier.tier, engine::Tier::kSplice);
  ASSERT_GT(service_->batch_counts().tokens, 0u);
  AwaitAudit();
  MutexLock lock(mutex_);
  ASSERT_EQ(audits_.size(), 1u);
  ASSERT_OK(audits_[0].report.status());
  EXPECT_GT(audits_[0].report->positions, 0);
}

}  // namespace
}  // namespace nexus::serve
