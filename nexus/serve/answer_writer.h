// AnswerWriter: follows one request on the thread that answers it. Turns the
// events of the inference thread into a whole answer or a stream, and cancels
// the work when nobody waits for it any more.
#ifndef NEXUS_SERVE_ANSWER_WRITER_H_
#define NEXUS_SERVE_ANSWER_WRITER_H_

#include <chrono>
#include <memory>
#include <optional>

#include "nexus/net/http_server.h"
#include "nexus/serve/answer_format.h"
#include "nexus/serve/caller.h"
#include "nexus/serve/chat_service.h"

namespace nexus::serve {

// Used by one thread.
class AnswerWriter {
 public:
  AnswerWriter(std::unique_ptr<AnswerFormat> format,
               ChatService::Accepted accepted, Caller caller);
  // Cancels what is still at work.
  ~AnswerWriter();
  AnswerWriter(const AnswerWriter&) = delete;
  AnswerWriter& operator=(const AnswerWriter&) = delete;

  // nullopt: `error` says why there is no answer.
  std::optional<Json> Whole(ApiError* error);

  // Waits until it is known whether there will be a stream; false: there won't.
  bool AwaitFirst(ApiError* error);
  // The stream, to its end. False: the client has gone.
  bool Stream(const net::StreamWriter& write);

 private:
  // The next event; kFailed when the time is up or the client has gone.
  ChatEvent Next();
  // Cancels the work if nobody waits for it any more. Now and then only: it
  // asks the socket.
  void Look();

  const std::unique_ptr<AnswerFormat> format_;
  const ChatService::Accepted accepted_;
  const Caller caller_;
  std::optional<ChatEvent> first_;
  std::chrono::steady_clock::time_point next_look_;
  bool ended_ = false;
};

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_ANSWER_WRITER_H_
