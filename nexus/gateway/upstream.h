// Upstream: one MCP server behind the gateway, kept alive.
//
// A thread of its own connects, lists what the server offers, lists again when
// the server says so, and starts a server that has gone anew after a pause that
// doubles (nexus/remote/backoff.h). Meanwhile the list of old stays, so that
// clients don't see tools come and go with every crash, and requests fail at
// once, saying why and when the next attempt is.
#ifndef NEXUS_GATEWAY_UPSTREAM_H_
#define NEXUS_GATEWAY_UPSTREAM_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "nexus/base/json.h"
#include "nexus/base/mutex.h"
#include "nexus/base/result.h"
#include "nexus/mcp/client.h"
#include "nexus/mcp/config.h"
#include "nexus/remote/backoff.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::gateway {

struct UpstreamOptions {
  mcp::McpClientOptions client;  // its callbacks and cancel are set here
  remote::BackoffOptions backoff{.first = std::chrono::milliseconds(500),
                                 .longest = std::chrono::milliseconds(60000)};
  // A server that was up for as long as this is started anew without the pauses
  // that its earlier failures had added up to.
  std::chrono::milliseconds stable_after{30000};
};

// What the server offers, each entry as the server wrote it.
struct UpstreamLists {
  std::vector<schema::ToolSchema> tools;
  std::vector<Json> raw_tools;  // one for each of `tools`
  std::vector<Json> prompts;
  std::vector<Json> resources;
  std::vector<Json> templates;  // of resources
};

// Called on threads of the upstream, which must not be made to wait for long,
// and must not call it back but for view().
struct UpstreamEvents {
  // Lists or state are others than before.
  std::function<void()> on_change;
  std::function<void(const mcp::RpcNotification&)> on_notification;
  // For the log: failures, restarts, tools left out.
  std::function<void(const std::string&)> note;
};

enum class UpstreamState { kStarting, kReady, kDown, kDisabled };

struct UpstreamView {
  UpstreamState state = UpstreamState::kStarting;
  std::string problem;  // when down
  std::chrono::milliseconds retry_in{0};
  mcp::ServerInfo info;
  std::shared_ptr<const UpstreamLists> lists;  // never null
};

// Thread-safe.
class Upstream {
 public:
  Upstream(mcp::McpServerConfig config, UpstreamOptions options,
           UpstreamEvents events);
  // Ends the server within a second. No request may be running any more.
  ~Upstream();
  Upstream(const Upstream&) = delete;
  Upstream& operator=(const Upstream&) = delete;

  void Start();

  const std::string& name() const { return config_.name; }
  UpstreamView view() const EXCLUDES(mutex_);
  // Whether the first attempt to connect has had its outcome, and on_change has
  // been called for it.
  bool settled() const { return settled_; }

  // Waits for a connection that is being made, but for no pause. kUnavailable
  // says why there is none. A request that may have reached the server isn't
  // repeated.
  Result<mcp::RpcResponse> Request(const std::string& method, Json params,
                                   const mcp::CallOptions& options = {})
      EXCLUDES(mutex_);

 private:
  void Run();
  // Connects and lists; then the client is in place.
  Status Open() EXCLUDES(mutex_);
  Result<std::shared_ptr<const UpstreamLists>> List(mcp::McpClient* client);
  // Returns when the connection has gone.
  void Serve() EXCLUDES(mutex_);
  void SetDown(const Status& why, std::chrono::milliseconds pause)
      EXCLUDES(mutex_);
  void OnNotification(const mcp::RpcNotification& notification)
      EXCLUDES(mutex_);
  void Note(const std::string& text) const;
  Result<std::shared_ptr<mcp::McpClient>> LiveClient(
      const std::atomic<bool>* cancel) EXCLUDES(mutex_);

  const mcp::McpServerConfig config_;
  UpstreamOptions options_;
  const UpstreamEvents events_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> settled_{false};

  mutable Mutex mutex_;
  CondVar changed_;
  UpstreamState state_ GUARDED_BY(mutex_) = UpstreamState::kStarting;
  std::string problem_ GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point retry_at_ GUARDED_BY(mutex_);
  mcp::ServerInfo info_ GUARDED_BY(mutex_);
  std::shared_ptr<const UpstreamLists> lists_ GUARDED_BY(mutex_);
  std::shared_ptr<mcp::McpClient> client_ GUARDED_BY(mutex_);
  bool list_again_ GUARDED_BY(mutex_) = false;
  bool gone_ GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace nexus::gateway

#endif  // NEXUS_GATEWAY_UPSTREAM_H_
