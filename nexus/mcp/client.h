// McpClient: one connection to one MCP server: handshake, tool list, calls.
#ifndef NEXUS_MCP_CLIENT_H_
#define NEXUS_MCP_CLIENT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nexus/base/json.h"
#include "nexus/base/result.h"
#include "nexus/mcp/config.h"
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
  // notifications/message of the server, dropped when empty. Runs on a thread
  // of the transport.
  std::function<void(const std::string& level, const std::string& text)> log;
};

struct CallOptions {
  int timeout_ms = 0;  // 0: the server's call_timeout_ms
  // Polled about every 10 ms. Must outlive the call.
  const std::atomic<bool>* cancel = nullptr;
  // notifications/progress of this call: done, total (0: unknown), message.
  // Runs on a thread of the transport.
  std::function<void(double progress, double total, const std::string& message)>
      on_progress;
};

struct CallResult {
  bool is_error = false;  // the tool ran and says that it failed
  // The text parts, joined with a line end; other parts as a short note such as
  // "[image/png, 1234 bytes of base64]".
  std::string text;
  Json structured;  // structuredContent, null: none
  Json raw;         // the whole result
};

struct ServerInfo {
  std::string name;
  std::string version;
  std::string protocol_version;
  std::string instructions;
  bool has_tools = false;
};

// What a server did wrong without harm, since the connection began.
struct ClientCounters {
  uint64_t skipped_texts = 0;       // not JSON-RPC: logs on stdout
  uint64_t unexpected_answers = 0;  // an id that nobody waits for
  uint64_t notifications = 0;
  uint64_t refused_requests = 0;  // server requests that Nexus doesn't serve
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
  // `skipped` (may be null), as is the second of two tools of one name. A
  // cursor that comes twice, or too many pages: the tools so far, and a line
  // in `skipped`.
  Result<std::vector<schema::ToolSchema>> ListTools(
      std::vector<std::string>* skipped = nullptr);

  // kDeadlineExceeded and kCancelled tell the server to stop, and leave the
  // connection usable. kInvalidArgument: the server refused the request.
  // kUnavailable: the server is gone; connect again.
  Result<CallResult> CallTool(const std::string& name, const Json& arguments,
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
  class Core;
  explicit McpClient(std::unique_ptr<Core> core);

  std::unique_ptr<Core> core_;
  ServerInfo info_;
};

}  // namespace nexus::mcp

#endif  // NEXUS_MCP_CLIENT_H_
