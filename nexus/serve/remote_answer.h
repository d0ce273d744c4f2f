// RemoteAnswer: one chat request that a remote answers, on its way to the
// client.
//
// A whole answer is got on the caller's thread. A stream is got by a thread of
// its own and sent by the caller's, which also sees when the client leaves.
#ifndef NEXUS_SERVE_REMOTE_ANSWER_H_
#define NEXUS_SERVE_REMOTE_ANSWER_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>

#include "nexus/base/json.h"
#include "nexus/net/http_server.h"
#include "nexus/remote/chat_client.h"
#include "nexus/remote/exchange.h"
#include "nexus/serve/openai_chat.h"
#include "nexus/serve/remote_request.h"
#include "nexus/serve/stream_pipe.h"

namespace nexus::serve {

ApiError FromRemoteError(const remote::RemoteError& error);

struct RemoteJob {
  ChatHead head;        // id and model as the client sees them
  ChatRequest request;  // the client's
  Json entries;         // the client's `tools`, as JSON
  Json outgoing;        // what the remote gets
  ToolsMode mode = ToolsMode::kRoute;
  remote::SchemaForm form = remote::SchemaForm::kFull;
  RemoteTools tools;
  std::chrono::nanoseconds arrived_at{0};
  std::chrono::steady_clock::time_point deadline;
  std::function<bool()> is_client_gone;
};

// Used by one thread.
class RemoteAnswer {
 public:
  RemoteAnswer(remote::ChatClient* client, RemoteJob job);
  // Cancels what is still under way.
  ~RemoteAnswer();
  RemoteAnswer(const RemoteAnswer&) = delete;
  RemoteAnswer& operator=(const RemoteAnswer&) = delete;

  // nullopt: `error` says why there is none.
  std::optional<Json> Whole(ApiError* error);

  // Begins the stream and waits until it is known whether there will be one;
  // false: there won't.
  bool AwaitFirst(ApiError* error);
  // To its end. False: the client has gone.
  bool Stream(const net::StreamWriter& write);

 private:
  void GetStream();
  // nullopt: it has ended.
  std::optional<std::string> Next();
  // `body` as the client sees it.
  void MakeOurs(Json* body) const;
  Json Report() const;

  remote::ChatClient* const client_;
  const RemoteJob job_;
  std::atomic<bool> is_cancelled_{false};
  remote::Exchange exchange_;
  StreamPipe pipe_;
  std::optional<std::string> first_;
  std::thread getter_;
};

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_REMOTE_ANSWER_H_
