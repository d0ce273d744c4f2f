#include "nexus/mcp/client.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/mcp/http_transport.h"
#include "nexus/mcp/json_fields.h"
#include "nexus/mcp/request_headers.h"
#include "nexus/mcp/stdio_transport.h"

namespace nexus::mcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr const char* kServerInfoKey = "io.modelcontextprotocol/serverInfo";
// A subscription that lasts as long is renewed.
constexpr int kListenMs = 24 * 3600 * 1000;
// Between two subscriptions of which the first broke off: doubled each time,
// unless the last one lasted for the longest of them.
constexpr milliseconds kListenPause{1000};
constexpr milliseconds kLongestListenPause{60000};

bool IsHandshakeRevision(const std::string& version) {
  return std::find(std::begin(kHandshakeRevisions),
                   std::end(kHandshakeRevisions),
                   version) != std::end(kHandshakeRevisions);
}

// The fields that the results of initialize and server/discover share.
ServerInfo ReadServerInfo(const Json& result, std::string version) {
  ServerInfo info{.protocol_version = std::move(version),
                  .instructions = StringOf(result, "instructions")};
  // server/discover has it in _meta.
  const auto meta = result.find("_meta");
  const Json& holder = meta != result.end() && meta->is_object() &&
                               meta->contains(kServerInfoKey)
                           ? *meta
                           : result;
  for (const char* key : {kServerInfoKey, "serverInfo"}) {
    const auto server = holder.find(key);
    if (server == holder.end()) continue;
    info.name = StringOf(*server, "name");
    info.version = StringOf(*server, "version");
    break;
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

McpClient::~McpClient() {
  [[maybe_unused]] const Status ignored = Close();
  if (listener_.joinable()) listener_.join();
}

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
  if (status.ok()) {
    client->StartListening();
    return client;
  }
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

void McpClient::StartListening() {
  if (info_.protocol_version != kStatelessRevision) return;
  Json lists = Json::object();
  for (const auto& [capability, filter] :
       {std::pair<const char*, const char*>{"tools", "toolsListChanged"},
        {"prompts", "promptsListChanged"},
        {"resources", "resourcesListChanged"}}) {
    const auto found = info_.capabilities.find(capability);
    if (found != info_.capabilities.end() && found->is_object() &&
        found->contains("listChanged") && (*found)["listChanged"] == true) {
      lists[filter] = true;
    }
  }
  if (lists.empty()) return;
  listener_ = std::thread([this, lists] { Listen(lists); });
}

void McpClient::Listen(const Json& lists) {
  using std::chrono::steady_clock;
  milliseconds pause = kListenPause;
  while (!closed()) {
    const auto began = steady_clock::now();
    const auto end =
        session_.Request("subscriptions/listen", {{"notifications", lists}},
                         {.timeout_ms = kListenMs, .is_open_ended = true});
    // Refused: it has none, whatever it said.
    const StatusCode code = end.status().code();
    if (code == StatusCode::kInvalidArgument || code == StatusCode::kNotFound) {
      return;
    }
    if (steady_clock::now() - began >= kLongestListenPause) {
      pause = kListenPause;
    }
    {
      MutexLock lock(mutex_);
      const auto until = steady_clock::now() + pause;
      while (!ending_ && steady_clock::now() < until) {
        changed_.WaitUntil(lock, until);
      }
      if (ending_) return;
    }
    pause = std::min(2 * pause, kLongestListenPause);
    if (closed()) return;
    // Who knows what has changed meanwhile.
    for (const char* list : {"tools", "prompts", "resources"}) {
      if (!lists.contains(std::string(list) + "ListChanged")) continue;
      session_.OnNotification(
          {.method = std::string("notifications/") + list + "/list_changed",
           .params = Json::object()});
    }
  }
}

std::vector<std::pair<std::string, std::string>> McpClient::HeadersFor(
    const std::string& tool, const Json& arguments) {
  std::vector<std::pair<std::string, std::string>> headers;
  MutexLock lock(mutex_);
  const auto found = marked_schemas_.find(tool);
  if (found == marked_schemas_.end()) return headers;
  for (const ParamHeader& param : ParamHeaders(found->second, arguments)) {
    if (param.value.is_null()) continue;
    headers.emplace_back(param.name, ParamHeaderText(param.value));
  }
  return headers;
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
  std::map<std::string, Json> marked;
  for (Json& entry : entries) {
    auto tool = schema::ParseTool(entry, config_.name, source);
    if (!tool.ok()) {
      skip("tool left out: " + tool.status().message());
    } else if (!names.insert(tool->name).second) {
      skip("tool left out: a second one named '" + tool->name + "'");
    } else {
      if (const auto schema = entry.find("inputSchema");
          info_.protocol_version == kStatelessRevision &&
          schema != entry.end() &&
          !ParamHeaders(*schema, Json::object()).empty()) {
        marked[tool->name] = *schema;
      }
      tools.push_back(std::move(tool).value());
      if (raw != nullptr) raw->push_back(std::move(entry));
    }
  }
  MutexLock lock(mutex_);
  marked_schemas_ = std::move(marked);
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
       .subject = name,
       .headers = HeadersFor(name, arguments)});
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
  std::vector<std::pair<std::string, std::string>> headers;
  if (method == "tools/call") {
    const auto arguments = params.find("arguments");
    headers = HeadersFor(StringOf(params, "name"),
                         arguments == params.end() ? Json() : *arguments);
  }
  auto response = session_.Exchange(
      method, std::move(params),
      {.timeout_ms = options.timeout_ms > 0 ? options.timeout_ms
                                            : config_.call_timeout_ms,
       .cancel = options.cancel,
       .on_progress = options.on_progress,
       .subject = std::move(subject),
       .headers = std::move(headers)});
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

Status McpClient::Close() {
  {
    MutexLock lock(mutex_);
    ending_ = true;
    changed_.NotifyAll();
  }
  return session_.Close();
}

}  // namespace nexus::mcp
