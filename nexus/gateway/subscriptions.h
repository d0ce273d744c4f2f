// Subscriptions: the subscriptions/listen requests of one client that are open.
#ifndef NEXUS_GATEWAY_SUBSCRIPTIONS_H_
#define NEXUS_GATEWAY_SUBSCRIPTIONS_H_

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "nexus/base/json.h"
#include "nexus/base/mutex.h"
#include "nexus/gateway/notification_sink.h"
#include "nexus/mcp/json_rpc.h"

namespace nexus::gateway {

enum class ListKind { kTools, kPrompts, kResources };

// "notifications/tools/list_changed", ...
const char* ListChangedMethod(ListKind kind);

// Thread-safe.
class Subscriptions {
 public:
  explicit Subscriptions(NotificationSink notify);
  Subscriptions(const Subscriptions&) = delete;
  Subscriptions& operator=(const Subscriptions&) = delete;

  // Says what of it is granted, before any news, or refuses what can't be
  // understood. `lists` are those that can change.
  std::optional<mcp::RpcResponse> Open(const mcp::RpcRequest& request,
                                       const std::vector<ListKind>& lists)
      EXCLUDES(mutex_);
  // After it there is no news any more. False: there is no such subscription.
  bool Close(const mcp::RpcId& id) EXCLUDES(mutex_);
  // Those that were open, answered at last: the gateway ends.
  std::vector<mcp::RpcResponse> End() EXCLUDES(mutex_);

  void Tell(ListKind kind) EXCLUDES(mutex_);

  bool Has(const mcp::RpcId& id) const EXCLUDES(mutex_);
  size_t size() const EXCLUDES(mutex_);

 private:
  const NotificationSink notify_;  // may be empty
  // Held while `notify_` runs: nothing overtakes the grant, or comes after the
  // end.
  mutable Mutex mutex_;
  std::map<mcp::RpcId, std::vector<ListKind>> open_ GUARDED_BY(mutex_);
};

}  // namespace nexus::gateway

#endif  // NEXUS_GATEWAY_SUBSCRIPTIONS_H_
