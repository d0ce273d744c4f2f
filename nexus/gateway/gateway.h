// Gateway: several MCP servers as one. Keeps them running, and their tools
// indexed; what a client asks is answered by a Session of its own.
#ifndef NEXUS_GATEWAY_GATEWAY_H_
#define NEXUS_GATEWAY_GATEWAY_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "nexus/base/mutex.h"
#include "nexus/base/result.h"
#include "nexus/gateway/tool_set.h"
#include "nexus/gateway/upstream.h"
#include "nexus/llm/embedder.h"
#include "nexus/mcp/config.h"

namespace nexus::gateway {

// What tools/list shows.
enum class Expose {
  kFind,    // find_tool and call_tool
  kRouted,  // and what find_tool found in this conversation
  kAll,     // every tool under its exposed name, and nothing else
};

struct GatewayOptions {
  std::vector<mcp::McpServerConfig> servers;
  UpstreamOptions upstream;
  ToolSetOptions tools;
  Expose expose = Expose::kFind;
  // Used by one thread at a time; null: words only. Must outlive the gateway.
  llm::Embedder* embedder = nullptr;
  // How long a request waits for servers that are still starting, and for their
  // tools to be indexed; after it, it works with what is there.
  std::chrono::milliseconds settle_wait{10000};
  // Lines for the log; from several threads. May be empty.
  std::function<void(const std::string&)> note;
};

// Thread-safe.
class Gateway {
 public:
  // Runs on threads of the gateway, which it mustn't keep waiting.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void OnToolsChanged() = 0;
    virtual void OnPromptsChanged() = 0;
    virtual void OnResourcesChanged() = 0;
    virtual void OnNotification(const std::string& server,
                                const mcp::RpcNotification& notification) = 0;
  };

  // Starts the servers and returns at once. kInvalidArgument: no server, or
  // two of one name.
  static Result<std::unique_ptr<Gateway>> Create(GatewayOptions options);
  // No request may be running any more.
  ~Gateway();
  Gateway(const Gateway&) = delete;
  Gateway& operator=(const Gateway&) = delete;

  const GatewayOptions& options() const { return options_; }
  const std::vector<std::unique_ptr<Upstream>>& upstreams() const {
    return upstreams_;
  }
  // Null: no such server.
  Upstream* FindUpstream(std::string_view name) const;

  // As they are now.
  std::shared_ptr<const ToolSet> tools() const EXCLUDES(mutex_);
  // After settle_wait at the latest, or when `cancel` is set.
  std::shared_ptr<const ToolSet> AwaitTools(
      const std::atomic<bool>* cancel = nullptr) EXCLUDES(mutex_);
  // Whether AwaitTools would return at once.
  bool settled() const EXCLUDES(mutex_);

  // After Remove the listener isn't called any more.
  void Add(Listener* listener) EXCLUDES(listener_mutex_);
  void Remove(Listener* listener) EXCLUDES(listener_mutex_);

 private:
  explicit Gateway(GatewayOptions options);
  void Index();
  void BuildTools(llm::Embedder* embedder) EXCLUDES(mutex_);
  // Tells the listeners when prompts or resources are others than last time.
  void CompareOffers() EXCLUDES(listener_mutex_);
  void CheckRules() const EXCLUDES(mutex_);
  void Note(const std::string& text) const;
  bool IsSettled() const REQUIRES(mutex_);

  const GatewayOptions options_;
  std::atomic<bool> stop_{false};
  const std::unique_ptr<llm::Embedder> embedder_;  // null: words only

  mutable Mutex mutex_;
  mutable CondVar changed_;
  uint64_t wanted_version_ GUARDED_BY(mutex_) = 1;
  uint64_t built_version_ GUARDED_BY(mutex_) = 0;
  std::shared_ptr<const ToolSet> tools_ GUARDED_BY(mutex_);

  // Held while listeners are called: Remove waits for them.
  Mutex listener_mutex_;
  std::set<Listener*> listeners_ GUARDED_BY(listener_mutex_);

  // Of the indexer alone.
  Sha256Digest prompts_digest_ = Sha256Of("");
  Sha256Digest resources_digest_ = Sha256Of("");

  std::vector<std::unique_ptr<Upstream>> upstreams_;
  std::thread indexer_;
};

}  // namespace nexus::gateway

#endif  // NEXUS_GATEWAY_GATEWAY_H_
