// Session: one client's conversation with the gateway: the handshake, its
// requests and their cancellation, what find_tool has found in it. Says nothing
// about how messages travel; stdio_server.h and http_front.h do that.
//
// Requests of the revision without a handshake (stateless.h) are answered
// beside, whatever else was said before: of them the session only knows which
// are running.
#ifndef NEXUS_GATEWAY_SESSION_H_
#define NEXUS_GATEWAY_SESSION_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nexus/base/mutex.h"
#include "nexus/gateway/gateway.h"
#include "nexus/gateway/notification_sink.h"
#include "nexus/gateway/subscriptions.h"
#include "nexus/mcp/client.h"
#include "nexus/mcp/json_rpc.h"

namespace nexus::gateway {

// What the gateway speaks after a handshake, newest first.
inline constexpr const char* kServedRevisions[] = {"2025-11-25", "2025-06-18",
                                                   "2025-03-26"};
// The one that has batches.
inline constexpr const char* kBatchRevision = "2025-03-26";

struct SessionOptions {
  std::string version;  // of the program
  // Requests that may run at once; more are refused.
  size_t max_requests = 64;
  // Notifications that belong to no request, or to one of subscriptions/listen.
  NotificationSink notify;
};

// Thread-safe.
class Session : public Gateway::Listener {
 public:
  // A request on its way.
  struct Ticket {
    mcp::RpcRequest request;
    std::atomic<bool> cancelled{false};
    std::optional<mcp::RpcResponse> refusal;
  };

  Session(Gateway* gateway, SessionOptions options);
  // No request may be running any more.
  ~Session() override;
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // From here on the request can be cancelled. Never null; each must be run.
  std::shared_ptr<Ticket> Admit(mcp::RpcRequest request) EXCLUDES(mutex_);
  // Answers it, which may take as long as a tool takes. Notifications that
  // belong to it go to `emit`, from other threads too. Nothing: it was
  // cancelled, or a subscription is open now, and no answer is due.
  std::optional<mcp::RpcResponse> Run(const std::shared_ptr<Ticket>& ticket,
                                      const NotificationSink& emit)
      EXCLUDES(mutex_);
  // Whether Run takes no time to speak of.
  static bool IsQuick(const std::string& method);

  void Handle(const mcp::RpcNotification& notification) EXCLUDES(mutex_);
  // All that are running, without an answer.
  void CancelAll() EXCLUDES(mutex_);
  // The answers of the subscriptions that were open: the gateway ends them.
  std::vector<mcp::RpcResponse> EndSubscriptions();

  // Subscriptions aside, which run until somebody ends them.
  size_t running() const EXCLUDES(mutex_);
  // Empty before the handshake.
  std::string revision() const EXCLUDES(mutex_);

  void OnToolsChanged() override;
  void OnPromptsChanged() override;
  void OnResourcesChanged() override;
  void OnNotification(const std::string& server,
                      const mcp::RpcNotification& notification) override;

 private:
  std::optional<mcp::RpcResponse> Answer(const Ticket& ticket,
                                         const NotificationSink& emit);
  // A request of the revision without a handshake.
  std::optional<mcp::RpcResponse> AnswerStateless(const Ticket& ticket,
                                                  const NotificationSink& emit);
  mcp::RpcResponse AnswerMethod(const Ticket& ticket,
                                const NotificationSink& emit);
  Json ServerInfo() const;
  Json Discovered() const;
  // Those whose changes a client without a session can see.
  std::vector<ListKind> ChangingLists() const;
  mcp::RpcResponse Initialize(const mcp::RpcRequest& request) EXCLUDES(mutex_);
  mcp::RpcResponse ListTools(const Ticket& ticket) EXCLUDES(mutex_);
  mcp::RpcResponse CallTool(const Ticket& ticket, const NotificationSink& emit);
  mcp::RpcResponse SetLevel(const Ticket& ticket) EXCLUDES(mutex_);
  // Whether tools/list has more to show now.
  bool Remember(const std::vector<std::string>& found) EXCLUDES(mutex_);
  void NotifyListChanged(ListKind kind) EXCLUDES(mutex_);

  Gateway* const gateway_;
  const SessionOptions options_;
  Subscriptions subscriptions_;

  mutable Mutex mutex_;
  std::string revision_ GUARDED_BY(mutex_);
  size_t level_ GUARDED_BY(mutex_);
  std::map<mcp::RpcId, std::shared_ptr<Ticket>> running_ GUARDED_BY(mutex_);
  std::vector<std::string> found_ GUARDED_BY(mutex_);  // exposed names
};

}  // namespace nexus::gateway

#endif  // NEXUS_GATEWAY_SESSION_H_
