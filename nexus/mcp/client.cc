#include "nexus/mcp/client.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/mcp/http_transport.h"
#include "nexus/mcp/json_fields.h"
#include "nexus/mcp/stdio_transport.h"

namespace nexus::mcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

bool IsHandshakeRevision(const std::string& version) {
  return std::find(std::begin(kHandshakeRevisions),
                   std::end(kHandshakeRevisions),
                   version) != std::end(kHandshakeRevisions);
}

// The fields that the results of initialize and server/discover share.
ServerInfo ReadServerInfo(const Json& result, std::string version) {
  ServerInfo info{.protocol_version = std::move(version),
                  .instructions = StringOf(result, "instructions")};
  if (const auto server = result.find("serverInfo"); server != result.end()) {
    info.name = StringOf(*server, "name");
    info.version = StringOf(*server, "version");
  }
  if (const auto capabilities = result.find("capabilities");
      capabilities != result.end() && capabilities->is_object()) {
    info.capabilities = *capabilities;
  }
  return info;
}

Result<std::unique_ptr<Transport>> NewTransport(
    const McpServerConfig& config, const McpClientOptions& options) {
  if (!config.url.empty()) {
    return NewHttpTransport({.url = config.url,
                             .headers = config.headers,
                             .connect_timeout_ms = config.connect_timeout_ms,
                             .max_message_bytes = options.max_message_bytes,
                             .hurry = options.cancel});
  }
  return NewStdioTransport({.process = {.command = config.command,
                                        .args = config.args,
                                        .env = config.env,
                                        .cwd = config.cwd},
                            .hurry = options.cancel,
                            .max_message_bytes = options.max_message_bytes,
                            .stderr_lines = options.stderr_lines});
}

bool IsSet(const std::atomic<bool>* flag) { return flag != nullptr && *flag; }

Status InterruptedError(const std::string& server) {
  return CancelledError("MCP server '" + server + "': interrupted");
}

}  // namespace

McpClient::McpClient(McpServerConfig config, McpClientOptions options,
                     std::unique_ptr<Transport> transport)
    : config_(std::move(config)),
      options_(std::move(options)),
      session_({.label = "MCP server '" + config_.name + "'",
                .max_message_bytes = options_.max_message_bytes,
                .log = options_.log,
                .on_notification = options_.on_notification,
                .on_closed = options_.on_closed},
               std::move(transport)) {}

McpClient::~McpClient() = default;

bool McpClient::Interrupted() const { return IsSet(options_.cancel); }

Result<std::unique_ptr<McpClient>> McpClient::Connect(
    const McpServerConfig& config, const McpClientOptions& options) {
  if (IsSet(options.cancel)) return InterruptedError(config.name);
  auto transport = NewTransport(config, options);
  if (!transport.ok()) {
    return transport.status().WithContext("MCP server '" + config.name + "'");
  }
  return ConnectOver(std::move(transport).value(), config, options);
}

Result<std::unique_ptr<McpClient>> McpClient::ConnectOver(
    std::unique_ptr<Transport> transport, const McpServerConfig& config,
    const McpClientOptions& options) {
  std::unique_ptr<McpClient> client(
      new McpClient(config, options, std::move(transport)));
  Status status = client->session_.Start();
  if (status.ok()) status = client->Handshake();
  if (client->Interrupted()) return InterruptedError(config.name);
  if (status.ok()) return client;
  if (status.code() == StatusCode::kDeadlineExceeded) {
    status = DeadlineExceededError(
        "it didn't finish the MCP handshake (" + status.message() +
        "); check that its command starts an MCP server");
  } else {
    status = status.WithContext("can't connect");
  }
  return client->session_.Explain(status);
}

// Handshake first: most servers have one, and one without it must refuse
// "initialize" at once, while an older server may keep silent when asked to
// "server/discover", which would cost a timeout at every start.
Status McpClient::Handshake() {
  const Clock& clock = Clock::Monotonic();
  const nanoseconds deadline =
      clock.Now() + milliseconds(config_.connect_timeout_ms);
  const auto answer =
      session_.Request("initialize",
                       {{"protocolVersion", kHandshakeRevisions[0]},
                        {"capabilities", Json::object()},
                        {"clientInfo",
                         {{"name", options_.client_name},
                          {"version", options_.client_version}}}},
                       {.timeout_ms = config_.connect_timeout_ms,
                        .cancel = options_.cancel,
                        .cancellable = false});
  if (answer.status().code() == StatusCode::kInvalidArgument) {
    constexpr int kDiscoverTimeoutMs = 3000;
    const auto left_ms = static_cast<int>(Milliseconds(deadline - clock.Now()));
    const Status discovered =
        Discover(std::clamp(left_ms, 1, kDiscoverTimeoutMs));
    return discovered.ok() ? discovered : answer.status();
  }
  if (!answer.ok()) return answer.status();
  if (!answer->is_object()) {
    return CorruptionError(
        std::string("initialize: expected an object, found ") +
        answer->type_name());
  }
  const std::string version = StringOf(*answer, "protocolVersion");
  if (!IsHandshakeRevision(version)) {
    std::string known;
    for (const char* revision : kHandshakeRevisions) {
      known += std::string(revision) + ", ";
    }
    return IncompatibleError("it speaks protocol revision '" + version +
                             "', Nexus speaks " + known + kStatelessRevision);
  }
  info_ = ReadServerInfo(*answer, version);
  session_.UseRevision(version);
  return session_.Notify("notifications/initialized", nullptr,
                         {.cancel = options_.cancel});
}

Status McpClient::Discover(int timeout_ms) {
  session_.UseRevision(
      kStatelessRevision,
      {{"io.modelcontextprotocol/protocolVersion", kStatelessRevision},
       {"io.modelcontextprotocol/clientInfo",
        {{"name", options_.client_name}, {"version", options_.client_version}}},
       {"io.modelcontextprotocol/clientCapabilities", Json::object()}});
  NEXUS_ASSIGN_OR_RETURN(const Json answer,
                         session_.Request("server/discover", Json::object(),
                                          {.timeout_ms = timeout_ms,
                                           .cancel = options_.cancel,
                                           .cancellable = false}));
  if (answer.is_object() && answer.contains("supportedVersions")) {
    const Json& versions = answer["supportedVersions"];
    if (versions.is_array() &&
        std::find(versions.begin(), versions.end(), Json(kStatelessRevision)) !=
            versions.end()) {
      info_ = ReadServerInfo(answer, kStatelessRevision);
      return {};
    }
  }
  return IncompatibleError(std::string("it doesn't speak revision ") +
                           kStatelessRevision);
}

Result<std::vector<Json>> McpClient::ListAll(
    const std::string& method, const char* key,
    std::vector<std::string>* skipped) {
  std::vector<Json> entries;
  const auto skip = [&](std::string reason) {
    if (skipped != nullptr) skipped->push_back(std::move(reason));
  };
  std::set<std::string> cursors;
  Json params = Json::object();
  for (int page = 0; page < options_.max_pages; ++page) {
    auto answer = session_.Request(
        method, params,
        {.timeout_ms = config_.connect_timeout_ms, .cancel = options_.cancel});
    if (Interrupted()) return InterruptedError(config_.name);
    if (!answer.ok()) {
      return session_.Explain(answer.status().WithContext(method));
    }
    const auto list = answer->is_object() ? answer->find(key) : answer->end();
    if (!answer->is_object() || list == answer->end() || !list->is_array()) {
      return session_.Explain(CorruptionError(
          method + ": the answer has no \"" + key + "\" array"));
    }
    for (Json& entry : *list) {
      if (entries.size() == options_.max_tools) {
        skip("list cut at " + std::to_string(entries.size()) + " " + key);
        return entries;
      }
      entries.push_back(std::move(entry));
    }
    const std::string cursor = StringOf(*answer, "nextCursor");
    if (cursor.empty()) return entries;
    if (!cursors.insert(cursor).second) {
      skip("list cut: its cursor comes round again");
      return entries;
    }
    params["cursor"] = cursor;
  }
  skip("list cut after " + std::to_string(options_.max_pages) + " pages");
  return entries;
}

Result<std::vector<schema::ToolSchema>> McpClient::ListTools(
    std::vector<std::string>* skipped, std::vector<Json>* raw) {
  std::vector<schema::ToolSchema> tools;
  const auto skip = [&](std::string reason) {
    if (skipped != nullptr) skipped->push_back(std::move(reason));
  };
  if (raw != nullptr) raw->clear();
  if (!info_.Has("tools")) {
    skip("it declares no tools");
    return tools;
  }
  NEXUS_ASSIGN_OR_RETURN(std::vector<Json> entries,
                         ListAll("tools/list", "tools", skipped));
  const std::string source = session_.label() + ", tools/list";
  std::set<std::string> names;
  for (Json& entry : entries) {
    auto tool = schema::ParseTool(entry, config_.name, source);
    if (!tool.ok()) {
      skip("tool left out: " + tool.status().message());
    } else if (!names.insert(tool->name).second) {
      skip("tool left out: a second one named '" + tool->name + "'");
    } else {
      tools.push_back(std::move(tool).value());
      if (raw != nullptr) raw->push_back(std::move(entry));
    }
  }
  return tools;
}

Result<CallResult> McpClient::CallTool(const std::string& name,
                                       const Json& arguments,
                                       const CallOptions& options) {
  if (!arguments.is_object() && !arguments.is_null()) {
    return InvalidArgumentError(session_.label() + ", tool '" + name +
                                "': the arguments are no object but " +
                                arguments.type_name());
  }
  auto answer = session_.Request(
      "tools/call",
      {{"name", name},
       {"arguments", arguments.is_null() ? Json::object() : arguments}},
      {.timeout_ms = options.timeout_ms > 0 ? options.timeout_ms
                                            : config_.call_timeout_ms,
       .cancel = options.cancel,
       .on_progress = options.on_progress,
       .subject = name});
  const std::string context = "tool '" + name + "'";
  if (!answer.ok()) {
    return session_.Explain(answer.status().WithContext(context));
  }
  auto result = ReadCallResult(std::move(answer).value());
  if (!result.ok()) {
    return session_.Explain(result.status().WithContext(context));
  }
  return result;
}

Result<RpcResponse> McpClient::Request(const std::string& method, Json params,
                                       const CallOptions& options) {
  std::string subject = StringOf(params, "name");
  if (subject.empty()) subject = StringOf(params, "uri");
  const std::string context =
      method + (subject.empty() ? "" : " '" + subject + "'");
  auto response = session_.Exchange(
      method, std::move(params),
      {.timeout_ms = options.timeout_ms > 0 ? options.timeout_ms
                                            : config_.call_timeout_ms,
       .cancel = options.cancel,
       .on_progress = options.on_progress,
       .subject = std::move(subject)});
  if (response.ok()) return response;
  return session_.Explain(response.status().WithContext(context));
}

Status McpClient::Ping(int timeout_ms) {
  const auto answer =
      session_.Request("ping", Json::object(), {.timeout_ms = timeout_ms});
  return answer.ok() ? Status() : session_.Explain(answer.status());
}

ClientCounters McpClient::counters() const { return session_.counters(); }
bool McpClient::closed() const { return session_.closed(); }

void McpClient::set_tools_changed_callback(std::function<void()> callback) {
  session_.set_tools_changed_callback(std::move(callback));
}

Status McpClient::Close() { return session_.Close(); }

}  // namespace nexus::mcp
