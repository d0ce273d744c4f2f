#include "nexus/serve/answer_writer.h"

#include <memory>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "nexus/base/test_util.h"

namespace nexus::serve {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

ChatEvent Failed(const Status& status) {
  ChatEvent event;
  event.kind = ChatEvent::Kind::kFailed;
  event.error = FromStatus(status);
  return event;
}

// A model so quick that its reader never waits: there is always a piece of text
// ready, until the ticket is cancelled, or much too late.
class QuickModel {
 public:
  QuickModel() {
    accepted_.stream = std::make_shared<ChatStream>();
    accepted_.ticket = std::make_shared<Ticket>();
    for (int i = 0; i < 1000; ++i) PushText();
    thread_ = std::thread([this] {
      const auto much_too_late = steady_clock::now() + milliseconds(5000);
      while (!accepted_.ticket->is_cancelled() &&
             steady_clock::now() < much_too_late) {
        PushText();
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
      accepted_.stream->Push(Failed(accepted_.ticket->status()));
    });
  }
  ~QuickModel() { thread_.join(); }

  std::unique_ptr<AnswerWriter> Writer(Caller caller) {
    return std::make_unique<AnswerWriter>(
        std::make_unique<ChatChunks>(ChatHead{.id = "c", .model = "m"}, false),
        accepted_, std::move(caller));
  }
  Status why() const { return accepted_.ticket->status(); }

 private:
  void PushText() {
    ChatEvent event;
    event.text = "word ";
    accepted_.stream->Push(std::move(event));
  }

  ChatService::Accepted accepted_;
  std::thread thread_;
};

constexpr milliseconds kShort{60};
constexpr std::chrono::hours kNever{1};

TEST(AnswerWriterTest, AWholeAnswerEndsAtItsDeadlineWhileTokensCome) {
  QuickModel model;
  const auto writer = model.Writer({.deadline = steady_clock::now() + kShort});
  ApiError error;
  EXPECT_EQ(writer->Whole(&error), std::nullopt);
  EXPECT_EQ(error.status, 408) << error.message;
  EXPECT_EQ(model.why().code(), StatusCode::kDeadlineExceeded);
}

TEST(AnswerWriterTest, AWholeAnswerEndsWithItsClientWhileTokensCome) {
  QuickModel model;
  const auto leaves_at = steady_clock::now() + kShort;
  const auto writer = model.Writer(
      {.deadline = steady_clock::now() + kNever,
       .is_client_gone = [=] { return steady_clock::now() >= leaves_at; }});
  ApiError error;
  EXPECT_EQ(writer->Whole(&error), std::nullopt);
  EXPECT_EQ(model.why().code(), StatusCode::kCancelled);
  EXPECT_THAT(model.why().message(), HasSubstr("client"));
}

TEST(AnswerWriterTest, AStreamEndsAtItsDeadlineWithAnErrorEvent) {
  QuickModel model;
  const auto writer = model.Writer({.deadline = steady_clock::now() + kShort});
  ApiError error;
  ASSERT_TRUE(writer->AwaitFirst(&error));
  std::string sent;
  EXPECT_TRUE(writer->Stream([&](std::string_view bytes) {
    sent += bytes;
    return true;
  }));
  EXPECT_EQ(model.why().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(sent, HasSubstr("\"word \""));
  EXPECT_THAT(sent, HasSubstr("took too long"));
  EXPECT_THAT(sent, testing::Not(HasSubstr("[DONE]")));
}

// Asking whether a client is there costs a system call.
TEST(AnswerWriterTest, LooksSeldomHoweverManyTokensCome) {
  ChatService::Accepted accepted = {.stream = std::make_shared<ChatStream>(),
                                    .ticket = std::make_shared<Ticket>()};
  constexpr int kPieces = 20000;
  for (int i = 0; i < kPieces; ++i) accepted.stream->Push({.text = "w"});
  ChatEvent done;
  done.kind = ChatEvent::Kind::kDone;
  accepted.stream->Push(std::move(done));
  int looks = 0;
  const auto start = steady_clock::now();
  AnswerWriter writer(
      std::make_unique<ChatChunks>(ChatHead{.id = "c", .model = "m"}, false),
      accepted, {.deadline = start + kNever, .is_client_gone = [&] {
                   ++looks;
                   return false;
                 }});
  ApiError error;
  EXPECT_TRUE(writer.Whole(&error).has_value()) << error.message;
  const auto took = steady_clock::now() - start;
  EXPECT_GE(looks, 1);
  EXPECT_LE(looks, took / milliseconds(20) + 1);
}

}  // namespace
}  // namespace nexus::serve
