#include "nexus/mcp/catalog.h"

#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "nexus/base/clock.h"

namespace nexus::mcp {

// Thread-safe. The list of tools is what Connect() or List() found last.
struct McpCatalog::Server {
  McpServerConfig config;
  McpClientOptions options;

  std::mutex mutex;  // guards what follows, and makes reconnecting single-file
  std::shared_ptr<McpClient> client;
  std::vector<schema::ToolSchema> tools;
  ServerReport report;
  std::atomic<bool> changed{false};

  void Open() {
    const std::lock_guard lock(mutex);
    report = {.name = config.name};
    tools.clear();
    if (config.disabled) {
      report.status = CancelledError("MCP server '" + config.name +
                                     "' is disabled in the configuration");
      return;
    }
    const Clock& clock = Clock::Monotonic();
    const auto start = clock.Now();
    report.status = Connect();
    if (report.status.ok()) report.status = List();
    if (!report.status.ok()) client = nullptr;
    report.connect_ms = Milliseconds(clock.Now() - start);
  }

  // With the mutex held.
  Status Connect() {
    client = nullptr;
    NEXUS_ASSIGN_OR_RETURN(auto connected, McpClient::Connect(config, options));
    connected->set_tools_changed_callback([this] { changed = true; });
    report.info = connected->server_info();
    client = std::move(connected);
    return {};
  }

  // With the mutex held.
  Status List() {
    changed = false;
    report.warnings.clear();
    NEXUS_ASSIGN_OR_RETURN(tools, client->ListTools(&report.warnings));
    report.tool_count = tools.size();
    if (const uint64_t skipped = client->counters().skipped_texts;
        skipped > 0) {
      report.warnings.push_back(
          std::to_string(skipped) +
          " messages that weren't JSON-RPC were skipped (a server must log to "
          "stderr, not to stdout)");
    }
    return {};
  }

  // Ends a connection that was up before the others were interrupted.
  void Interrupt() {
    const std::lock_guard lock(mutex);
    if (!report.status.ok()) return;
    client = nullptr;
    tools.clear();
    report.tool_count = 0;
    report.status =
        CancelledError("MCP server '" + config.name + "': interrupted");
  }

  Result<std::shared_ptr<McpClient>> LiveClient() {
    const std::lock_guard lock(mutex);
    if (client == nullptr && !report.status.ok()) return report.status;
    if (client == nullptr || client->closed()) {
      NEXUS_RETURN_IF_ERROR(Connect());
    }
    return client;
  }

  void Refresh() {
    bool failed;
    {
      const std::lock_guard lock(mutex);
      failed = client == nullptr || client->closed();
      if (!failed && changed) report.status = List();
    }
    if (failed && !config.disabled) Open();
  }
};

namespace {

// Calls `work(i)` for every i at the same time: starting a server is waiting.
// What gets no thread of its own is done by the caller.
void ForEachAtOnce(size_t count, const std::function<void(size_t)>& work) {
  std::vector<std::thread> threads;
  threads.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    try {
      threads.emplace_back(work, i);
    } catch (const std::system_error&) {
      work(i);
    }
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

McpCatalog::McpCatalog() = default;

// Each server gets seconds to end in peace; together they wait once.
McpCatalog::~McpCatalog() {
  ForEachAtOnce(servers_.size(), [&](size_t i) {
    const std::lock_guard lock(servers_[i]->mutex);
    servers_[i]->client = nullptr;
  });
}

Result<std::unique_ptr<McpCatalog>> McpCatalog::Open(
    std::vector<McpServerConfig> servers, const McpCatalogOptions& options) {
  if (servers.empty()) {
    return InvalidArgumentError(
        "no MCP server is configured; name one in the \"mcpServers\" file");
  }
  std::set<std::string> names;
  for (const McpServerConfig& config : servers) {
    if (!names.insert(config.name).second) {
      return InvalidArgumentError("two MCP servers are named '" + config.name +
                                  "'; rename one");
    }
  }
  std::unique_ptr<McpCatalog> catalog(new McpCatalog());
  catalog->options_ = options;
  for (McpServerConfig& config : servers) {
    auto server = std::make_unique<Server>();
    server->config = std::move(config);
    server->options = options.client;
    if (options.cancel != nullptr) server->options.cancel = options.cancel;
    catalog->servers_.push_back(std::move(server));
  }
  ForEachAtOnce(catalog->servers_.size(),
                [&](size_t i) { catalog->servers_[i]->Open(); });
  if (options.cancel != nullptr && *options.cancel) {
    ForEachAtOnce(catalog->servers_.size(),
                  [&](size_t i) { catalog->servers_[i]->Interrupt(); });
  }
  catalog->Gather();
  return catalog;
}

void McpCatalog::Gather() {
  tools_.clear();
  reports_.clear();
  for (const auto& server : servers_) {
    const std::lock_guard lock(server->mutex);
    tools_.insert(tools_.end(), server->tools.begin(), server->tools.end());
    reports_.push_back(server->report);
  }
}

Result<CallResult> McpCatalog::Call(const schema::ToolSchema& tool,
                                    const Json& arguments,
                                    const CallOptions& options) {
  for (const auto& server : servers_) {
    if (server->config.name != tool.server) continue;
    NEXUS_ASSIGN_OR_RETURN(const auto client, server->LiveClient());
    return client->CallTool(tool.name, arguments, options);
  }
  return NotFoundError("tool '" + schema::ToolId(tool) +
                       "': no MCP server named '" + tool.server +
                       "' is attached");
}

bool McpCatalog::tools_changed() const {
  for (const auto& server : servers_) {
    if (server->changed) return true;
  }
  return false;
}

void McpCatalog::Refresh() {
  ForEachAtOnce(servers_.size(), [&](size_t i) { servers_[i]->Refresh(); });
  Gather();
}

}  // namespace nexus::mcp
