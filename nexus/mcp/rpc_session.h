// RpcSession: requests and answers over a Transport. Matches answers to those
// who wait for them, answers the server's own requests, and counts what the
// server does wrong.
#ifndef NEXUS_MCP_RPC_SESSION_H_
#define NEXUS_MCP_RPC_SESSION_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nexus/base/json.h"
#include "nexus/base/result.h"
#include "nexus/mcp/json_rpc.h"
#include "nexus/mcp/transport.h"

namespace nexus::mcp {

// What a server did wrong without harm, since the connection began.
struct ClientCounters {
  uint64_t skipped_texts = 0;       // not JSON-RPC: logs on stdout
  uint64_t unexpected_answers = 0;  // an id that nobody waits for
  uint64_t notifications = 0;
  uint64_t refused_requests = 0;  // server requests that Nexus doesn't serve
};

using ProgressCallback = std::function<void(double progress, double total,
                                            const std::string& message)>;
using LogCallback =
    std::function<void(const std::string& level, const std::string& text)>;
// Any notification of the server but progress, as it came.
using NotificationCallback = std::function<void(const RpcNotification&)>;

struct RpcSessionOptions {
  std::string label;  // names the server in errors
  size_t max_message_bytes = size_t{16} << 20;
  // All three run on a thread of the transport and must not call the session.
  LogCallback log;
  NotificationCallback on_notification;
  // The connection is gone for good; not called by Close().
  std::function<void()> on_closed;
};

struct RpcRequestOptions {
  int timeout_ms = 0;
  const std::atomic<bool>* cancel = nullptr;
  ProgressCallback on_progress;
  // What the request is about: a tool, a prompt, a resource's URI.
  std::string subject;
  // The handshake can't be cancelled, says the protocol.
  bool cancellable = true;
  // A subscription: an answer without an id is never its own.
  bool is_open_ended = false;
  // For transports that have headers.
  std::vector<std::pair<std::string, std::string>> headers;
};

struct RpcNotifyOptions {
  int timeout_ms = 2000;  // nobody waits for the outcome
  const std::atomic<bool>* cancel = nullptr;
};

// Thread-safe but for Start() and UseRevision(), which come first.
class RpcSession {
 public:
  RpcSession(RpcSessionOptions options, std::unique_ptr<Transport> transport);
  ~RpcSession();
  RpcSession(const RpcSession&) = delete;
  RpcSession& operator=(const RpcSession&) = delete;

  Status Start();
  // `request_meta`, unless null, goes into the _meta of every request.
  void UseRevision(const std::string& version, Json request_meta = nullptr);

  // The answer, which may be an error of the server's. Giving up tells the
  // server so. kInvalidArgument: `params` or its _meta is no object, and
  // nothing was sent.
  Result<RpcResponse> Exchange(const std::string& method, Json params,
                               const RpcRequestOptions& options);
  // The answer's "result". An error answer is kInvalidArgument, or
  // kUnavailable for an internal error of the server.
  Result<Json> Request(const std::string& method, Json params,
                       const RpcRequestOptions& options);
  Status Notify(const std::string& method, Json params,
                const RpcNotifyOptions& options = {});
  // Whoever still waits gets kCancelled. Idempotent.
  Status Close();

  // Names the server, and adds what else is known about the failure.
  Status Explain(const Status& status) const;

  void set_tools_changed_callback(std::function<void()> callback);
  ClientCounters counters() const;
  bool closed() const;
  const std::string& label() const { return label_; }

  // As if the server had sent it.
  void OnNotification(const RpcNotification& notification);

 private:
  struct Pending {
    bool done = false;
    Status failure;  // not OK: no answer will come
    RpcResponse response;
    ProgressCallback on_progress;
    bool is_open_ended = false;
  };

  void OnMessage(std::string_view text);
  void OnRequest(const RpcRequest& request);
  void OnResponse(RpcResponse response);
  void FailAll(const Status& status, bool closed);
  Status Wait(const std::shared_ptr<Pending>& pending,
              const RpcRequestOptions& options,
              std::chrono::nanoseconds deadline);

  const std::string label_;
  const size_t max_message_bytes_;
  const LogCallback log_;
  const NotificationCallback on_notification_;
  const std::function<void()> on_closed_;
  const std::unique_ptr<Transport> transport_;
  Json request_meta_;

  std::mutex callback_mutex_;
  std::function<void()> tools_changed_;

  mutable std::mutex mutex_;  // guards what follows; never held in a call out
  std::condition_variable changed_;
  std::map<int64_t, std::shared_ptr<Pending>> pending_;
  int64_t next_id_ = 1;
  Status closed_;
  ClientCounters counters_;
  std::string first_skipped_;
};

}  // namespace nexus::mcp

#endif  // NEXUS_MCP_RPC_SESSION_H_
