// RequestLog: one record for each HTTP request, with what became of it. Never
// what was said: no headers, no bodies, no text of the conversation.
#ifndef NEXUS_SERVE_REQUEST_LOG_H_
#define NEXUS_SERVE_REQUEST_LOG_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "nexus/base/json.h"
#include "nexus/base/mutex.h"
#include "nexus/net/http_server.h"
#include "nexus/serve/chat_service.h"

namespace nexus::serve {

struct RequestRecord {
  net::AnsweredRequest request;
  struct Chat {
    std::string_view tier;
    bool is_call = false;
    ChatUsage usage;
    double queue_ms = 0;
    double ttft_ms = 0;
  };
  // Of a chat that ended well.
  std::optional<Chat> chat;
};

// The fields of a line in JSON: docs/install.md lists them.
Json ToJson(const RequestRecord& record);
// For people: "POST /v1/chat/completions 200 531 ms splice 412+23 tokens ...".
std::string ToText(const RequestRecord& record);

// Thread-safe, if the sink is.
class RequestLog {
 public:
  using Sink = std::function<void(const RequestRecord&)>;
  explicit RequestLog(Sink sink) : sink_(std::move(sink)) {}

  // For ChatServiceOptions::on_outcome.
  void NoteChat(const ChatOutcome& outcome) EXCLUDES(mutex_);
  // For HttpServerOptions::on_answered, which comes after: the record is whole
  // and goes to the sink.
  void NoteAnswer(const net::AnsweredRequest& request) EXCLUDES(mutex_);

 private:
  const Sink sink_;
  Mutex mutex_;
  // By request, until its answer is out.
  std::map<std::string, RequestRecord::Chat, std::less<>> chats_
      GUARDED_BY(mutex_);
};

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_REQUEST_LOG_H_
