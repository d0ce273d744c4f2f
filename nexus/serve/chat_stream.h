// ChatStream: what the inference thread says about one request, for the thread
// that answers it.
#ifndef NEXUS_SERVE_CHAT_STREAM_H_
#define NEXUS_SERVE_CHAT_STREAM_H_

#include <chrono>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "nexus/base/mutex.h"
#include "nexus/base/status.h"
#include "nexus/serve/openai_chat.h"

namespace nexus::serve {

struct ChatEvent {
  enum class Kind {
    kText,           // text: a piece of the answer
    kCallBegin,      // call: id and name
    kCallArguments,  // text: a piece of the last call's arguments
    kDone,           // result; the last event
    kFailed,         // error; the last event
  };
  Kind kind = Kind::kText;
  std::string text;
  Json logprobs;  // kText: of its tokens; null: not asked for
  llm::ToolCall call;
  ChatResult result;
  ApiError error;
};

// Thread-safe. Holds at most an answer's length: max_tokens bounds it.
class ChatStream {
 public:
  void Push(ChatEvent event) EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    events_.push_back(std::move(event));
    arrived_.NotifyOne();
  }
  // nullopt: nothing came within the time.
  std::optional<ChatEvent> Pop(std::chrono::milliseconds wait)
      EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto deadline = std::chrono::steady_clock::now() + wait;
    while (events_.empty()) {
      if (!arrived_.WaitUntil(lock, deadline)) break;
    }
    if (events_.empty()) return std::nullopt;
    ChatEvent event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

 private:
  Mutex mutex_;
  CondVar arrived_;
  std::deque<ChatEvent> events_ GUARDED_BY(mutex_);
};

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_CHAT_STREAM_H_
