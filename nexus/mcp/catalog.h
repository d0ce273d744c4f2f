// McpCatalog: the tools of several servers as one list. Servers are connected
// at the same time; one that fails has its reason in the report and hides
// nothing of the others.
#ifndef NEXUS_MCP_CATALOG_H_
#define NEXUS_MCP_CATALOG_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/mcp/client.h"
#include "nexus/mcp/config.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::mcp {

struct McpCatalogOptions {
  McpClientOptions client;
  // Ends Open(), Refresh() and connecting anew soon after it is set; goes into
  // `client`. Must outlive the catalog.
  const std::atomic<bool>* cancel = nullptr;
};

struct ServerReport {
  std::string name;
  Status status;  // kCancelled for a disabled server, and when interrupted
  ServerInfo info;
  size_t tool_count = 0;
  double connect_ms = 0;  // start, handshake and tool list
  // Tools left out and why; lines on stdout that weren't JSON-RPC.
  std::vector<std::string> warnings;
};

// Call() is thread-safe; Refresh() must not run beside anything else.
class McpCatalog {
 public:
  // Fails only when the list itself is wrong (no server, a name twice). All
  // servers failing is a success with an empty tools(): see reports(). When
  // `cancel` was set meanwhile, every server has been ended, and the reports
  // of those that hadn't failed by themselves are kCancelled.
  static Result<std::unique_ptr<McpCatalog>> Open(
      std::vector<McpServerConfig> servers,
      const McpCatalogOptions& options = {});
  ~McpCatalog();
  McpCatalog(const McpCatalog&) = delete;
  McpCatalog& operator=(const McpCatalog&) = delete;

  // In the order of the servers, then of each server's list.
  const std::vector<schema::ToolSchema>& tools() const { return tools_; }
  const std::vector<ServerReport>& reports() const { return reports_; }

  // Calls `tool` on the server that it came from. A server that has gone since
  // is connected anew first; a call that may have reached it isn't repeated.
  Result<CallResult> Call(const schema::ToolSchema& tool, const Json& arguments,
                          const CallOptions& options = {});

  // Whether a server said that its list changed since the last Refresh().
  bool tools_changed() const;
  // Lists anew the servers whose list changed, and connects those that failed.
  void Refresh();

 private:
  struct Server;
  McpCatalog();
  void Gather();

  McpCatalogOptions options_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<schema::ToolSchema> tools_;
  std::vector<ServerReport> reports_;
};

}  // namespace nexus::mcp

#endif  // NEXUS_MCP_CATALOG_H_
