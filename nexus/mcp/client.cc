#include "nexus/mcp/client.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/mcp/http_transport.h"
#include "nexus/mcp/json_rpc.h"
#include "nexus/mcp/stdio_transport.h"

namespace nexus::mcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// How often a waiting call looks at its cancel flag.
constexpr milliseconds kCancelPoll{10};
// For messages that nobody waits for: answers to the server, "cancelled".
constexpr int kCourtesyTimeoutMs = 2000;

std::string StringOf(const Json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return {};
  return found->get<std::string>();
}

double NumberOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

bool IsHandshakeRevision(const std::string& version) {
  return std::find(std::begin(kHandshakeRevisions),
                   std::end(kHandshakeRevisions),
                   version) != std::end(kHandshakeRevisions);
}

// One part of a tool's answer as text.
std::string PartText(const Json& part) {
  const std::string type = StringOf(part, "type");
  if (type == "text") return StringOf(part, "text");
  if (type == "image" || type == "audio") {
    return "[" + StringOf(part, "mimeType") + ", " +
           std::to_string(StringOf(part, "data").size()) + " bytes of base64]";
  }
  if (type == "resource_link") return "[link " + StringOf(part, "uri") + "]";
  if (type == "resource") {
    const auto resource = part.find("resource");
    if (resource == part.end()) return "[resource]";
    const std::string text = StringOf(*resource, "text");
    return text.empty() ? "[resource " + StringOf(*resource, "uri") + "]"
                        : text;
  }
  return "[" + (type.empty() ? std::string("unknown part") : type) + "]";
}

Result<CallResult> ReadCallResult(Json raw) {
  if (!raw.is_object()) {
    return CorruptionError(std::string("expected an object, found ") +
                           raw.type_name());
  }
  const std::string kind = StringOf(raw, "resultType");
  if (!kind.empty() && kind != "complete") {
    return UnimplementedError("the tool asks the user for input (resultType '" +
                              kind + "'), which Nexus doesn't offer");
  }
  CallResult result;
  if (const auto error = raw.find("isError");
      error != raw.end() && error->is_boolean()) {
    result.is_error = error->get<bool>();
  }
  if (const auto structured = raw.find("structuredContent");
      structured != raw.end()) {
    result.structured = *structured;
  }
  if (const auto content = raw.find("content"); content != raw.end()) {
    if (!content->is_array()) {
      return CorruptionError(
          std::string("\"content\": expected an array, found ") +
          content->type_name());
    }
    bool first = true;
    for (const Json& part : *content) {
      if (!std::exchange(first, false)) result.text += '\n';
      result.text += PartText(part);
    }
  } else if (!result.structured.is_null()) {
    result.text = DumpJson(result.structured);
  } else {
    return CorruptionError(
        "neither \"content\" nor \"structuredContent\" in the result");
  }
  result.raw = std::move(raw);
  return result;
}

struct RequestOptions {
  int timeout_ms = 0;
  const std::atomic<bool>* cancel = nullptr;
  std::function<void(double, double, const std::string&)> on_progress;
  std::string tool_name;
  // The handshake can't be cancelled, says the protocol.
  bool cancellable = true;
};

}  // namespace

// Shared with the transport's handlers, hence apart from McpClient.
class McpClient::Core {
 public:
  Core(McpServerConfig config, McpClientOptions options,
       std::unique_ptr<Transport> transport)
      : config_(std::move(config)),
        options_(std::move(options)),
        transport_(std::move(transport)),
        label_("MCP server '" + config_.name + "'") {}

  // The transport's threads end before the members that they use go.
  ~Core() { [[maybe_unused]] const Status ignored = Close(); }

  Status Start() {
    return transport_->Start(
        {.on_message = [this](std::string_view text) { OnMessage(text); },
         .on_lost = [this](const Status& status) { FailAll(status, false); },
         .on_closed = [this](const Status& status) { FailAll(status, true); }});
  }

  Result<ServerInfo> Handshake();
  Result<Json> Request(const std::string& method, Json params,
                       const RequestOptions& options);
  Status Notify(const std::string& method, Json params);

  Status Close() {
    {
      const std::lock_guard lock(mutex_);
      if (closed_.ok()) closed_ = CancelledError("the connection was closed");
    }
    changed_.notify_all();
    return transport_->Close();
  }

  // Names the server, and adds what else is known about the failure.
  Status Explain(const Status& status) const;

  void set_tools_changed_callback(std::function<void()> callback) {
    const std::lock_guard lock(callback_mutex_);
    tools_changed_ = std::move(callback);
  }
  ClientCounters counters() const {
    const std::lock_guard lock(mutex_);
    return counters_;
  }
  bool closed() const {
    const std::lock_guard lock(mutex_);
    return !closed_.ok();
  }
  const McpServerConfig& config() const { return config_; }
  const McpClientOptions& options() const { return options_; }
  const std::string& label() const { return label_; }

 private:
  struct Pending {
    bool done = false;
    Status failure;  // not OK: no answer will come
    RpcResponse response;
    std::function<void(double, double, const std::string&)> on_progress;
  };

  void OnMessage(std::string_view text);
  void OnRequest(const RpcRequest& request);
  void OnNotification(const RpcNotification& notification);
  void OnResponse(RpcResponse response);
  void FailAll(const Status& status, bool closed);
  Status Wait(const std::shared_ptr<Pending>& pending,
              const RequestOptions& options, nanoseconds deadline);
  Result<ServerInfo> Discover(int timeout_ms);
  Json StatelessMeta() const;

  const McpServerConfig config_;
  const McpClientOptions options_;
  const std::unique_ptr<Transport> transport_;
  const std::string label_;
  std::atomic<bool> stateless_{false};

  std::mutex callback_mutex_;
  std::function<void()> tools_changed_;

  mutable std::mutex mutex_;  // guards what follows; never held in a call out
  std::condition_variable changed_;
  std::map<int64_t, std::shared_ptr<Pending>> pending_;
  int64_t next_id_ = 1;
  Status closed_;
  ClientCounters counters_;
  std::string first_skipped_;
};

Status McpClient::Core::Explain(const Status& status) const {
  std::string message = label_ + ": " + status.message();
  const std::string diagnostics = transport_->Diagnostics();
  const std::lock_guard lock(mutex_);
  if (counters_.skipped_texts > 0) {
    message +=
        ". " + std::to_string(counters_.skipped_texts) +
        " of its messages weren't JSON-RPC, the first: " + first_skipped_;
  }
  if (!diagnostics.empty()) message += ". " + diagnostics;
  return Status(status.code(), std::move(message));
}

void McpClient::Core::OnMessage(std::string_view text) {
  auto messages =
      ParseRpc(text, label_, {.max_bytes = options_.max_message_bytes});
  if (!messages.ok()) {
    const std::lock_guard lock(mutex_);
    if (counters_.skipped_texts++ == 0) {
      constexpr size_t kMaxBytes = 120;
      first_skipped_ = DumpJson(Json(std::string(text.substr(0, kMaxBytes))));
    }
    return;
  }
  for (RpcMessage& message : *messages) {
    if (auto* response = std::get_if<RpcResponse>(&message)) {
      OnResponse(std::move(*response));
    } else if (const auto* request = std::get_if<RpcRequest>(&message)) {
      OnRequest(*request);
    } else {
      OnNotification(std::get<RpcNotification>(message));
    }
  }
}

void McpClient::Core::OnResponse(RpcResponse response) {
  {
    const std::lock_guard lock(mutex_);
    auto found = pending_.end();
    if (const auto* id = std::get_if<int64_t>(&response.id)) {
      found = pending_.find(*id);
    } else if (std::holds_alternative<std::monostate>(response.id) &&
               pending_.size() == 1) {
      // An error without an id can only mean the one request in flight.
      found = pending_.begin();
    }
    if (found == pending_.end()) {
      ++counters_.unexpected_answers;
      return;
    }
    found->second->response = std::move(response);
    found->second->done = true;
    pending_.erase(found);
  }
  changed_.notify_all();
}

void McpClient::Core::OnRequest(const RpcRequest& request) {
  RpcResponse response{.id = request.id};
  if (request.method == "ping") {
    response.result = Json::object();
  } else if (request.method == "roots/list") {
    response.result = {{"roots", Json::array()}};
  } else {
    response.error =
        RpcError{.code = rpc_error::kMethodNotFound,
                 .message = "Nexus doesn't offer '" + request.method + "'"};
    const std::lock_guard lock(mutex_);
    ++counters_.refused_requests;
  }
  // A server that can't be answered is noticed by the calls that wait for it.
  [[maybe_unused]] const Status ignored = transport_->Send(
      SerializeRpc(response), {.timeout_ms = kCourtesyTimeoutMs});
}

void McpClient::Core::OnNotification(const RpcNotification& notification) {
  {
    const std::lock_guard lock(mutex_);
    ++counters_.notifications;
  }
  const Json& params = notification.params;
  if (notification.method == "notifications/tools/list_changed") {
    const std::lock_guard lock(callback_mutex_);
    if (tools_changed_) tools_changed_();
  } else if (notification.method == "notifications/progress") {
    if (!params.is_object()) return;
    const auto token = params.find("progressToken");
    if (token == params.end() || !token->is_number_integer()) return;
    std::function<void(double, double, const std::string&)> on_progress;
    {
      const std::lock_guard lock(mutex_);
      const auto found = pending_.find(token->get<int64_t>());
      if (found != pending_.end()) on_progress = found->second->on_progress;
    }
    if (on_progress) {
      on_progress(NumberOf(params, "progress"), NumberOf(params, "total"),
                  StringOf(params, "message"));
    }
  } else if (notification.method == "notifications/message" && options_.log) {
    if (!params.is_object()) return;
    const auto data = params.find("data");
    if (data == params.end()) return;
    options_.log(StringOf(params, "level"), data->is_string()
                                                ? data->get<std::string>()
                                                : DumpJson(*data));
  }
}

void McpClient::Core::FailAll(const Status& status, bool closed) {
  {
    const std::lock_guard lock(mutex_);
    if (closed && closed_.ok()) closed_ = status;
    for (auto& [id, pending] : pending_) {
      pending->failure = status;
      pending->done = true;
    }
    pending_.clear();
  }
  changed_.notify_all();
}

Status McpClient::Core::Wait(const std::shared_ptr<Pending>& pending,
                             const RequestOptions& options,
                             nanoseconds deadline) {
  const Clock& clock = Clock::Monotonic();
  std::unique_lock lock(mutex_);
  while (!pending->done) {
    if (!closed_.ok()) return closed_;
    if (options.cancel != nullptr && *options.cancel) {
      return CancelledError("cancelled");
    }
    const nanoseconds left = deadline - clock.Now();
    if (left <= nanoseconds::zero()) {
      return DeadlineExceededError("no answer within " +
                                   std::to_string(options.timeout_ms) + " ms");
    }
    changed_.wait_for(lock, options.cancel == nullptr
                                ? left
                                : std::min<nanoseconds>(left, kCancelPoll));
  }
  return pending->failure;
}

Result<Json> McpClient::Core::Request(const std::string& method, Json params,
                                      const RequestOptions& options) {
  const nanoseconds deadline =
      Clock::Monotonic().Now() + milliseconds(options.timeout_ms);
  auto pending = std::make_shared<Pending>();
  pending->on_progress = options.on_progress;
  RpcRequest request{.method = method};
  int64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!closed_.ok()) return closed_;
    id = next_id_++;
    pending_[id] = pending;
  }
  request.id = id;
  if (params.is_null()) params = Json::object();
  if (stateless_) params["_meta"] = StatelessMeta();
  if (options.on_progress) params["_meta"]["progressToken"] = id;
  request.params = std::move(params);

  Status status = transport_->Send(
      SerializeRpc(request),
      {.timeout_ms = options.timeout_ms,
       .cancel = options.cancel,
       .answered =
           [this, pending] {
             const std::lock_guard lock(mutex_);
             return pending->done;
           },
       .method = stateless_ ? method : std::string(),
       .tool_name = stateless_ ? options.tool_name : std::string()});
  bool answered;
  {
    const std::lock_guard lock(mutex_);
    answered = pending->done;
  }
  if (answered || status.ok()) status = Wait(pending, options, deadline);
  if (!status.ok()) {
    bool was_waiting;
    {
      const std::lock_guard lock(mutex_);
      was_waiting = pending_.erase(id) > 0;
    }
    const bool gave_up = status.code() == StatusCode::kDeadlineExceeded ||
                         status.code() == StatusCode::kCancelled;
    if (was_waiting && gave_up && options.cancellable && !closed()) {
      [[maybe_unused]] const Status ignored =
          Notify("notifications/cancelled",
                 {{"requestId", id}, {"reason", status.message()}});
    }
    return status;
  }
  RpcResponse& response = pending->response;
  if (!response.error) return std::move(response.result);
  std::string message =
      method +
      (options.tool_name.empty() ? "" : " '" + options.tool_name + "'") +
      " was refused with error " + std::to_string(response.error->code) + ": " +
      response.error->message;
  if (!response.error->data.is_null()) {
    constexpr size_t kMaxBytes = 300;
    message += " " + DumpJson(response.error->data).substr(0, kMaxBytes);
  }
  const bool our_fault = response.error->code != rpc_error::kInternalError;
  return Status(
      our_fault ? StatusCode::kInvalidArgument : StatusCode::kUnavailable,
      std::move(message));
}

Status McpClient::Core::Notify(const std::string& method, Json params) {
  return transport_->Send(
      SerializeRpc(RpcNotification{method, std::move(params)}),
      {.timeout_ms = kCourtesyTimeoutMs, .method = method});
}

Json McpClient::Core::StatelessMeta() const {
  return {
      {"io.modelcontextprotocol/protocolVersion", kStatelessRevision},
      {"io.modelcontextprotocol/clientInfo",
       {{"name", options_.client_name}, {"version", options_.client_version}}},
      {"io.modelcontextprotocol/clientCapabilities", Json::object()}};
}

// Handshake first: most servers have one, and one without it must refuse
// "initialize" at once, while an older server may keep silent when asked to
// "server/discover", which would cost a timeout at every start.
Result<ServerInfo> McpClient::Core::Handshake() {
  const nanoseconds deadline =
      Clock::Monotonic().Now() + milliseconds(config_.connect_timeout_ms);
  auto answer =
      Request("initialize",
              {{"protocolVersion", kHandshakeRevisions[0]},
               {"capabilities", Json::object()},
               {"clientInfo",
                {{"name", options_.client_name},
                 {"version", options_.client_version}}}},
              {.timeout_ms = config_.connect_timeout_ms, .cancellable = false});
  if (!answer.ok()) {
    if (answer.status().code() != StatusCode::kInvalidArgument) {
      return answer.status();
    }
    constexpr int kDiscoverTimeoutMs = 3000;
    const auto left_ms =
        static_cast<int>(Milliseconds(deadline - Clock::Monotonic().Now()));
    if (left_ms <= 0) return answer.status();
    auto info = Discover(std::min(left_ms, kDiscoverTimeoutMs));
    return info.ok() ? std::move(info) : answer.status();
  }
  if (!answer->is_object()) {
    return CorruptionError(
        std::string("initialize: expected an object, found ") +
        answer->type_name());
  }
  ServerInfo info;
  info.protocol_version = StringOf(*answer, "protocolVersion");
  if (!IsHandshakeRevision(info.protocol_version)) {
    std::string known;
    for (const char* revision : kHandshakeRevisions) {
      known += std::string(known.empty() ? "" : ", ") + revision;
    }
    return IncompatibleError("it speaks protocol revision '" +
                             info.protocol_version + "', Nexus speaks " +
                             known + " and " + kStatelessRevision);
  }
  if (const auto server = answer->find("serverInfo"); server != answer->end()) {
    info.name = StringOf(*server, "name");
    info.version = StringOf(*server, "version");
  }
  info.instructions = StringOf(*answer, "instructions");
  const auto capabilities = answer->find("capabilities");
  info.has_tools = capabilities != answer->end() && capabilities->is_object() &&
                   capabilities->contains("tools");
  transport_->SetProtocolVersion(info.protocol_version);
  NEXUS_RETURN_IF_ERROR(Notify("notifications/initialized", nullptr));
  return info;
}

Result<ServerInfo> McpClient::Core::Discover(int timeout_ms) {
  stateless_ = true;
  transport_->SetProtocolVersion(kStatelessRevision);
  NEXUS_ASSIGN_OR_RETURN(
      const Json answer,
      Request("server/discover", Json::object(),
              {.timeout_ms = timeout_ms, .cancellable = false}));
  const auto versions =
      answer.is_object() ? answer.find("supportedVersions") : answer.end();
  if (!answer.is_object() || versions == answer.end() ||
      !versions->is_array() ||
      std::find(versions->begin(), versions->end(), Json(kStatelessRevision)) ==
          versions->end()) {
    return IncompatibleError(std::string("it doesn't speak revision ") +
                             kStatelessRevision);
  }
  ServerInfo info{.protocol_version = kStatelessRevision,
                  .instructions = StringOf(answer, "instructions")};
  if (const auto server = answer.find("serverInfo"); server != answer.end()) {
    info.name = StringOf(*server, "name");
    info.version = StringOf(*server, "version");
  }
  const auto capabilities = answer.find("capabilities");
  info.has_tools = capabilities != answer.end() && capabilities->is_object() &&
                   capabilities->contains("tools");
  return info;
}

McpClient::McpClient(std::unique_ptr<Core> core) : core_(std::move(core)) {}
McpClient::~McpClient() = default;

Result<std::unique_ptr<McpClient>> McpClient::Connect(
    const McpServerConfig& config, const McpClientOptions& options) {
  Result<std::unique_ptr<Transport>> transport =
      config.url.empty()
          ? NewStdioTransport({.process = {.command = config.command,
                                           .args = config.args,
                                           .env = config.env,
                                           .cwd = config.cwd},
                               .max_message_bytes = options.max_message_bytes})
          : NewHttpTransport({.url = config.url,
                              .headers = config.headers,
                              .connect_timeout_ms = config.connect_timeout_ms,
                              .max_message_bytes = options.max_message_bytes});
  if (!transport.ok()) {
    return transport.status().WithContext("MCP server '" + config.name + "'");
  }
  return ConnectOver(std::move(transport).value(), config, options);
}

Result<std::unique_ptr<McpClient>> McpClient::ConnectOver(
    std::unique_ptr<Transport> transport, const McpServerConfig& config,
    const McpClientOptions& options) {
  std::unique_ptr<McpClient> client(new McpClient(
      std::make_unique<Core>(config, options, std::move(transport))));
  Core& core = *client->core_;
  if (Status status = core.Start(); !status.ok()) return core.Explain(status);
  auto info = core.Handshake();
  if (!info.ok()) {
    const Status& cause = info.status();
    return core.Explain(
        cause.code() == StatusCode::kDeadlineExceeded
            ? DeadlineExceededError(
                  "it didn't finish the MCP handshake (" + cause.message() +
                  "); check that its command starts an MCP server")
            : cause.WithContext("can't connect"));
  }
  client->info_ = std::move(info).value();
  return client;
}

Result<std::vector<schema::ToolSchema>> McpClient::ListTools(
    std::vector<std::string>* skipped) {
  std::vector<schema::ToolSchema> tools;
  const auto skip = [&](std::string reason) {
    if (skipped != nullptr) skipped->push_back(std::move(reason));
  };
  if (!info_.has_tools) {
    skip("it declares no tools");
    return tools;
  }
  const std::string& server = core_->config().name;
  const std::string source = core_->label() + ", tools/list";
  std::set<std::string> names;
  std::set<std::string> cursors;
  Json params = Json::object();
  for (int page = 0; page < core_->options().max_pages; ++page) {
    auto answer =
        core_->Request("tools/list", params,
                       {.timeout_ms = core_->config().connect_timeout_ms});
    if (!answer.ok()) {
      return core_->Explain(answer.status().WithContext("tools/list"));
    }
    const auto list =
        answer->is_object() ? answer->find("tools") : answer->end();
    if (!answer->is_object() || list == answer->end() || !list->is_array()) {
      return core_->Explain(
          CorruptionError("tools/list: the answer has no \"tools\" array"));
    }
    for (const Json& entry : *list) {
      auto tool = schema::ParseTool(entry, server, source);
      if (!tool.ok()) {
        skip("tool left out: " + tool.status().message());
      } else if (!names.insert(tool->name).second) {
        skip("tool left out: a second one named '" + tool->name + "'");
      } else if (tools.size() == core_->options().max_tools) {
        skip("list cut at " + std::to_string(tools.size()) + " tools");
        return tools;
      } else {
        tools.push_back(std::move(tool).value());
      }
    }
    const std::string cursor = StringOf(*answer, "nextCursor");
    if (cursor.empty()) return tools;
    if (!cursors.insert(cursor).second) {
      skip("list cut: its cursor comes round again");
      return tools;
    }
    params["cursor"] = cursor;
  }
  skip("list cut after " + std::to_string(core_->options().max_pages) +
       " pages");
  return tools;
}

Result<CallResult> McpClient::CallTool(const std::string& name,
                                       const Json& arguments,
                                       const CallOptions& options) {
  if (!arguments.is_object() && !arguments.is_null()) {
    return InvalidArgumentError(core_->label() + ", tool '" + name +
                                "': the arguments are no object but " +
                                arguments.type_name());
  }
  auto answer = core_->Request(
      "tools/call",
      {{"name", name},
       {"arguments", arguments.is_null() ? Json::object() : arguments}},
      {.timeout_ms = options.timeout_ms > 0 ? options.timeout_ms
                                            : core_->config().call_timeout_ms,
       .cancel = options.cancel,
       .on_progress = options.on_progress,
       .tool_name = name});
  const std::string context = "tool '" + name + "'";
  if (!answer.ok()) {
    return core_->Explain(answer.status().WithContext(context));
  }
  auto result = ReadCallResult(std::move(answer).value());
  if (!result.ok()) {
    return core_->Explain(result.status().WithContext(context));
  }
  return result;
}

Status McpClient::Ping(int timeout_ms) {
  const auto answer =
      core_->Request("ping", Json::object(), {.timeout_ms = timeout_ms});
  return answer.ok() ? Status() : core_->Explain(answer.status());
}

ClientCounters McpClient::counters() const { return core_->counters(); }
bool McpClient::closed() const { return core_->closed(); }

void McpClient::set_tools_changed_callback(std::function<void()> callback) {
  core_->set_tools_changed_callback(std::move(callback));
}

Status McpClient::Close() { return core_->Close(); }

}  // namespace nexus::mcp
