// ChatServiceFixture: a chat service over a tiny model, and what it said.
#ifndef NEXUS_SERVE_TESTING_CHAT_SERVICE_FIXTURE_H_
#define NEXUS_SERVE_TESTING_CHAT_SERVICE_FIXTURE_H_

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "nexus/base/mutex.h"
#include "nexus/base/test_util.h"
#include "nexus/engine/testing/tiny_engine.h"
#include "nexus/serve/chat_service.h"

namespace nexus::serve {

// For anything that must come.
inline constexpr std::chrono::milliseconds kLongest{60000};

class ChatServiceFixture : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(
        tiny_, engine::testing::TinyEngine::Create({.context_tokens = 4096}));
  }

  ChatService& Start(ChatServiceOptions options = {}) {
    options.on_outcome = [this](const ChatOutcome& outcome) {
      outcomes_.push_back(outcome);
    };
    options.on_audit = [this](const AuditOutcome& outcome) {
      MutexLock lock(mutex_);
      audits_.push_back(outcome);
    };
    service_ = std::make_unique<ChatService>(&tiny_->engine(), &router_,
                                             std::move(options));
    return *service_;
  }

  static ChatRequest Question(const std::string& text) {
    ChatRequest request;
    request.messages = {{.role = "user", .content = text}};
    request.max_tokens = 12;
    request.wants_report = true;
    return request;
  }
  static ChatRequest BerthQuestion() {
    ChatRequest request = Question("Please book_berth_0 for the Aurora.");
    request.tools = {engine::testing::SampleTool(0),
                     engine::testing::SampleTool(1)};
    request.max_tokens = 200;
    return request;
  }

  // All events up to the last.
  static std::vector<ChatEvent> Events(ChatStream& stream) {
    std::vector<ChatEvent> events;
    do {
      auto event = stream.Pop(kLongest);
      if (!event.has_value()) {
        ADD_FAILURE() << "no event within a minute";
        return events;
      }
      events.push_back(*std::move(event));
    } while (events.back().kind != ChatEvent::Kind::kDone &&
             events.back().kind != ChatEvent::Kind::kFailed);
    return events;
  }
  std::vector<ChatEvent> Ask(ChatRequest request) {
    ChatService::Accepted accepted;
    if (const auto error = service_->Submit(std::move(request), &accepted)) {
      std::vector<ChatEvent> events(1);
      events.back().kind = ChatEvent::Kind::kFailed;
      events.back().error = *error;
      return events;
    }
    return Events(*accepted.stream);
  }

  void AwaitAudit() {
    const auto audited = [&] {
      MutexLock lock(mutex_);
      return !audits_.empty();
    };
    const auto begin = std::chrono::steady_clock::now();
    while (!audited() && std::chrono::steady_clock::now() - begin < kLongest) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  std::unique_ptr<engine::testing::TinyEngine> tiny_;
  ToolRouter router_{nullptr, {}};
  std::vector<ChatOutcome> outcomes_;
  Mutex mutex_;
  std::vector<AuditOutcome> audits_ GUARDED_BY(mutex_);
  std::unique_ptr<ChatService> service_;
};

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_TESTING_CHAT_SERVICE_FIXTURE_H_
