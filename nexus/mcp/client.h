// McpClient: one connection to one MCP server: handshake, tool list, calls.
#ifndef NEXUS_MCP_CLIENT_H_
#define NEXUS_MCP_CLIENT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nexus/base/json.h"
#include "nexus/base/mutex.h"
#include "nexus/base/result.h"
#include "nexus/mcp/call_result.h"
#include "nexus/mcp/config.h"
#include "nexus/mcp/rpc_session.h"
#include "nexus/mcp/transport.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::mcp {

// Newest first; docs/mcp.md says what of each is used.
inline constexpr const char* kHandshakeRevisions[] = {
    "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"};
// The revision without a handshake, spoken to servers that refuse one.
inline constexpr const char* kStatelessRevision = "2026-07-28";

struct McpClientOptions {
  std::string client_name = "nexus";
  std::string client_version = "0.1.0";
  size_t max_message_bytes = size_t{16} << 20;
  size_t max_tools = 10000;
  int max_pages = 1000;
  // Lines of the server's stderr shown in an error.
  int stderr_lines = 5;
  // notifications/message of the server, dropped when empty. This and the next
  // two run on a thread of the transport and must not call the client.
  LogCallback log;
  NotificationCallback on_notification;
  std::function<void()> on_closed;
  // Polled about every 10 ms while starting, shaking hands and listing; once
  // it is set those end with kCancelled, and the server is ended within a
  // second rather than in four. Must outlive the client.
  const std::atomic<bool>* cancel = nullptr;
};

struct CallOptions {
  int timeout_ms = 0;  // 0: the server's call_timeout_ms
  // Polled about every 10 ms. Must outlive the call.
  const std::atomic<bool>* cancel = nullptr;
  // notifications/progress of this call: done, total (0: unknown), message.
  // Runs on a thread of the transport.
  ProgressCallback on_progress;
};

struct ServerInfo {
  std::string name;
  std::string version;
  std::string protocol_version;
  std::string instructions;
  Json capabilities = Json::object();

  bool Has(const char* capability) const {
    return capabilities.contains(capability);
  }
};

// Thread-safe: calls may run at the same time.
class McpClient {
 public:
  // Starts the server, shakes hands; config.connect_timeout_ms bounds it.
  // Errors name the server, the remedy and the last lines of its stderr.
  static Result<std::unique_ptr<McpClient>> Connect(
      const McpServerConfig& config, const McpClientOptions& options = {});
  // The same over a given transport; for tests.
  static Result<std::unique_ptr<McpClient>> ConnectOver(
      std::unique_ptr<Transport> transport, const McpServerConfig& config,
      const McpClientOptions& options = {});
  ~McpClient();
  McpClient(const McpClient&) = delete;
  McpClient& operator=(const McpClient&) = delete;

  // All pages. A tool that can't be read is left out and described in
  // `skipped` (may be null), as is the second of two tools of one name. `raw`
  // (may be null) gets each tool as the server wrote it.
  Result<std::vector<schema::ToolSchema>> ListTools(
      std::vector<std::string>* skipped = nullptr,
      std::vector<Json>* raw = nullptr);
  // The entries of all pages of a list method, such as "prompts/list" with its
  // array "prompts". A cursor that comes twice, or too many pages or entries
  // (max_tools): those so far, and a line in `skipped` (may be null).
  Result<std::vector<Json>> ListAll(
      const std::string& method, const char* key,
      std::vector<std::string>* skipped = nullptr);

  // kDeadlineExceeded and kCancelled tell the server to stop, and leave the
  // connection usable. kInvalidArgument: the server refused the request.
  // kUnavailable: the server is gone (see closed()) or failed inside.
  Result<CallResult> CallTool(const std::string& name, const Json& arguments,
                              const CallOptions& options = {});

  // Any other request. The response may be the server's own error; a Status is
  // as of CallTool. Of `params` _meta.progressToken is replaced.
  Result<RpcResponse> Request(const std::string& method, Json params,
                              const CallOptions& options = {});

  // A round trip without effect; kUnavailable or kDeadlineExceeded.
  Status Ping(int timeout_ms = 5000);

  const ServerInfo& server_info() const { return info_; }
  ClientCounters counters() const;
  bool closed() const;

  // Runs on a thread of the transport, must not call this object.
  void set_tools_changed_callback(std::function<void()> callback);

  // Ends the connection; calls still waiting return kCancelled. Idempotent.
  Status Close();

 private:
  McpClient(McpServerConfig config, McpClientOptions options,
            std::unique_ptr<Transport> transport);
  bool Interrupted() const;
  Status Handshake();
  Status Discover(int timeout_ms);
  // Subscribes to the changes of lists, again and again, where the revision has
  // subscriptions for it.
  void StartListening();
  void Listen(const Json& lists);
  // The headers that a call of the tool needs.
  std::vector<std::pair<std::string, std::string>> HeadersFor(
      const std::string& tool, const Json& arguments) EXCLUDES(mutex_);

  const McpServerConfig config_;
  const McpClientOptions options_;
  RpcSession session_;
  ServerInfo info_;

  Mutex mutex_;
  CondVar changed_;
  bool ending_ GUARDED_BY(mutex_) = false;
  // Of the tools with parameters that must stand in headers, too.
  std::map<std::string, Json> marked_schemas_ GUARDED_BY(mutex_);
  std::thread listener_;
};

}  // namespace nexus::mcp

#endif  // NEXUS_MCP_CLIENT_H_
