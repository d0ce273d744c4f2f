#include "nexus/gateway/session.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "nexus/gateway/incoming.h"
#include "nexus/gateway/logs.h"
#include "nexus/gateway/offers.h"
#include "nexus/gateway/own_tools.h"
#include "nexus/gateway/stateless.h"
#include "nexus/mcp/json_fields.h"

namespace nexus::gateway {
namespace {

namespace rpc_error = mcp::rpc_error;
using mcp::RpcNotification;
using mcp::RpcRequest;
using mcp::RpcResponse;
using mcp::StringOf;

constexpr int kSetLevelTimeoutMs = 5000;

// Of the implementation's own range: too many requests at once.
constexpr int64_t kBusyError = -32000;

// Tools of a conversation that tools/list keeps showing; the oldest go.
constexpr size_t kMaxFound = 64;
// For how long clients may keep what only another start of the gateway changes.
constexpr int kFixedTtlMs = 300000;
// A page of tools/list, so that no client chokes on one message.
constexpr size_t kMaxPageBytes = size_t{4} << 20;

RpcResponse ResultResponse(Json result) {
  RpcResponse response;
  response.result = std::move(result);
  return response;
}

RpcResponse WrongParams(std::string message) {
  return ErrorResponse({}, rpc_error::kInvalidParams, std::move(message));
}

// Whole numbers without a point, as they most likely came.
Json NumberJson(double value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (std::trunc(value) == value && std::abs(value) < kExact) {
    return static_cast<int64_t>(value);
  }
  return value;
}

// Progress of a server's request becomes progress of the client's.
mcp::ProgressCallback ForwardProgress(const Json& params,
                                      const NotificationSink& emit) {
  const Json* meta = MetaOf(params);
  if (meta == nullptr || !emit) return nullptr;
  const auto token = meta->find("progressToken");
  if (token == meta->end() ||
      !(token->is_string() || token->is_number_integer())) {
    return nullptr;
  }
  return [token = *token, emit](double progress, double total,
                                const std::string& message) {
    Json out = {{"progressToken", token}, {"progress", NumberJson(progress)}};
    if (total != 0) out["total"] = NumberJson(total);
    if (!message.empty()) out["message"] = message;
    emit({.method = "notifications/progress", .params = std::move(out)});
  };
}

std::string Instructions(Expose expose) {
  if (expose == Expose::kAll) {
    return "Tools of several servers; each is named server__tool.";
  }
  return "Tools of several servers stand behind two: find_tool finds the tools "
         "for a task, with their schemas, and call_tool calls one.";
}

}  // namespace

Session::Session(Gateway* gateway, SessionOptions options)
    : gateway_(gateway),
      options_(std::move(options)),
      subscriptions_(options_.notify),
      level_(kDefaultLevel) {
  gateway_->Add(this);
}

Session::~Session() { gateway_->Remove(this); }

bool Session::IsQuick(const std::string& method) {
  return method == "initialize" || method == "ping" || method == kDiscover ||
         method == kListen;
}

std::shared_ptr<Session::Ticket> Session::Admit(RpcRequest request) {
  auto ticket = std::make_shared<Ticket>();
  ticket->request = std::move(request);
  MutexLock lock(mutex_);
  const size_t running = running_.size() + subscriptions_.size();
  if (running >= options_.max_requests) {
    ticket->refusal = ErrorResponse(
        ticket->request.id, kBusyError,
        std::to_string(running) +
            " requests of this session are running; wait for one to end");
  } else if (subscriptions_.Has(ticket->request.id) ||
             !running_.emplace(ticket->request.id, ticket).second) {
    ticket->refusal = ErrorResponse(
        ticket->request.id, rpc_error::kInvalidRequest,
        "a request with id " + mcp::RpcIdText(ticket->request.id) +
            " is still running");
  }
  return ticket;
}

std::optional<RpcResponse> Session::Run(const std::shared_ptr<Ticket>& ticket,
                                        const NotificationSink& emit) {
  if (ticket->refusal) return ticket->refusal;
  std::optional<RpcResponse> response = Answer(*ticket, emit);
  if (response) response->id = ticket->request.id;
  {
    MutexLock lock(mutex_);
    running_.erase(ticket->request.id);
  }
  if (ticket->cancelled) return std::nullopt;
  return response;
}

std::optional<RpcResponse> Session::Answer(const Ticket& ticket,
                                           const NotificationSink& emit) {
  const RpcRequest& request = ticket.request;
  if (!request.params.is_null() && !request.params.is_object()) {
    return WrongParams(request.method + ": \"params\" is no object but " +
                       request.params.type_name());
  }
  if (const auto meta = request.params.find("_meta");
      meta != request.params.end() && !meta->is_null() && !meta->is_object()) {
    return WrongParams(request.method + ": \"_meta\" is no object but " +
                       meta->type_name());
  }
  if (IsStateless(request)) return AnswerStateless(ticket, emit);
  if (request.method == "initialize") return Initialize(request);
  if (request.method == "ping") return ResultResponse(Json::object());
  if (revision().empty()) {
    return WrongParams(request.method + " before initialize: shake hands, or " +
                       "say in \"_meta\" what revision " +
                       mcp::kStatelessRevision + " asks for");
  }
  if (request.method == "logging/setLevel") return SetLevel(ticket);
  return AnswerMethod(ticket, emit);
}

std::optional<RpcResponse> Session::AnswerStateless(
    const Ticket& ticket, const NotificationSink& emit) {
  const RpcRequest& request = ticket.request;
  if (auto refusal = CheckRequestMeta(request)) return refusal;
  if (auto refusal = CheckVersion(request)) return refusal;
  if (request.method == kListen) {
    return subscriptions_.Open(request, ChangingLists());
  }
  RpcResponse response = request.method == kDiscover
                             ? ResultResponse(Discovered())
                             : AnswerMethod(ticket, emit);
  CompleteResponse(request.method, ServerInfo(), &response);
  return response;
}

// What the revisions have in common.
RpcResponse Session::AnswerMethod(const Ticket& ticket,
                                  const NotificationSink& emit) {
  const RpcRequest& request = ticket.request;
  if (request.method == "tools/list") return ListTools(ticket);
  if (request.method == "tools/call") return CallTool(ticket, emit);
  mcp::CallOptions options;
  options.cancel = &ticket.cancelled;
  options.on_progress = ForwardProgress(request.params, emit);
  if (auto response = AnswerOffer(
          gateway_, request.method,
          request.params.is_null() ? Json::object() : request.params,
          options)) {
    return std::move(*response);
  }
  return ErrorResponse({}, rpc_error::kMethodNotFound,
                       "the gateway doesn't offer '" + request.method + "'");
}

Json Session::ServerInfo() const {
  return {{"name", "nexus"},
          {"title", "Nexus MCP gateway"},
          {"version", options_.version}};
}

std::vector<ListKind> Session::ChangingLists() const {
  std::vector<ListKind> lists = {ListKind::kPrompts, ListKind::kResources};
  // Else it is the two tools, always.
  if (gateway_->options().expose == Expose::kAll) {
    lists.push_back(ListKind::kTools);
  }
  return lists;
}

Json Session::Discovered() const {
  const Expose expose = gateway_->options().expose;
  return {{"supportedVersions", Json::array({mcp::kStatelessRevision})},
          {"capabilities",
           {{"tools", {{"listChanged", expose == Expose::kAll}}},
            {"prompts", {{"listChanged", true}}},
            {"resources", {{"listChanged", true}}},
            {"completions", Json::object()},
            {"logging", Json::object()}}},
          {"instructions", Instructions(expose)},
          {"ttlMs", kFixedTtlMs}};
}

RpcResponse Session::Initialize(const RpcRequest& request) {
  const std::string asked = StringOf(request.params, "protocolVersion");
  if (asked.empty()) {
    return WrongParams("initialize: \"protocolVersion\" is missing");
  }
  // A revision that isn't known here: the newest, and the client decides.
  std::string revision = kServedRevisions[0];
  for (const char* served : kServedRevisions) {
    if (asked == served) revision = asked;
  }
  {
    MutexLock lock(mutex_);
    if (!revision_.empty()) {
      return ErrorResponse({}, rpc_error::kInvalidRequest,
                           "initialize: this session has been initialized");
    }
    revision_ = revision;
  }
  return ResultResponse(
      {{"protocolVersion", revision},
       {"capabilities",
        {{"tools", {{"listChanged", true}}},
         {"prompts", {{"listChanged", true}}},
         {"resources", {{"listChanged", true}}},
         {"completions", Json::object()},
         {"logging", Json::object()}}},
       {"serverInfo", ServerInfo()},
       {"instructions", Instructions(gateway_->options().expose)}});
}

RpcResponse Session::ListTools(const Ticket& ticket) {
  const Expose expose = gateway_->options().expose;
  const std::string cursor = StringOf(ticket.request.params, "cursor");
  Json listed = Json::array();
  if (expose != Expose::kAll) {
    if (!cursor.empty()) return WrongParams("tools/list: unknown cursor");
    listed.push_back(FindToolEntry(*gateway_));
    listed.push_back(CallToolEntry());
    if (expose == Expose::kRouted && !IsStateless(ticket.request)) {
      const auto tools = gateway_->tools();
      MutexLock lock(mutex_);
      for (const std::string& name : found_) {
        const GatewayTool* tool = tools->FindExposed(name);
        if (tool != nullptr) listed.push_back(tool->raw());
      }
    }
    Json result = {{"tools", std::move(listed)}};
    if (IsStateless(ticket.request)) result["ttlMs"] = kFixedTtlMs;
    return ResultResponse(std::move(result));
  }
  const auto tools = gateway_->AwaitTools(&ticket.cancelled);
  // The cursor is the name of the last tool shown: it stays right when tools
  // come and go between two pages.
  size_t next = 0;
  if (!cursor.empty()) {
    const auto& all = tools->tools();
    const auto last = std::find_if(
        all.begin(), all.end(),
        [&](const auto& tool) { return tool->exposed_name() == cursor; });
    if (last == all.end()) return WrongParams("tools/list: unknown cursor");
    next = static_cast<size_t>(last - all.begin()) + 1;
  }
  size_t bytes = 0;
  for (; next < tools->tools().size(); ++next) {
    const GatewayTool& tool = *tools->tools()[next];
    bytes += DumpJson(tool.raw()).size();
    if (bytes > kMaxPageBytes && !listed.empty()) break;
    listed.push_back(tool.raw());
  }
  Json result = {{"tools", std::move(listed)}};
  if (next < tools->tools().size()) {
    result["nextCursor"] = tools->tools()[next - 1]->exposed_name();
  }
  return ResultResponse(std::move(result));
}

RpcResponse Session::CallTool(const Ticket& ticket,
                              const NotificationSink& emit) {
  const Json& params = ticket.request.params;
  const std::string name = StringOf(params, "name");
  if (name.empty()) {
    return WrongParams("tools/call: \"name\" must be a tool's name");
  }
  Json arguments = Json::object();
  if (const auto given = params.find("arguments");
      given != params.end() && !given->is_null()) {
    if (!given->is_object()) {
      return WrongParams("tools/call: \"arguments\" is no object but " +
                         std::string(given->type_name()));
    }
    arguments = *given;
  }
  mcp::CallOptions options;
  options.cancel = &ticket.cancelled;
  options.on_progress = ForwardProgress(params, emit);
  const Expose expose = gateway_->options().expose;
  if (expose != Expose::kAll && name == kFindTool) {
    FindAnswer answer = FindTool(gateway_, arguments, options);
    if (expose == Expose::kRouted && !IsStateless(ticket.request) &&
        Remember(answer.found) && emit) {
      // With the request: a client over HTTP may have no other stream.
      emit({.method = "notifications/tools/list_changed",
            .params = Json::object()});
    }
    return ResultResponse(std::move(answer.result));
  }
  std::optional<LogTap> logs;
  HandedOn handed_on{.meta = ForwardedMeta(params)};
  if (const Json* meta = MetaOf(params);
      emit && meta != nullptr && IsStateless(ticket.request)) {
    // Unasked for, there are none.
    if (const auto level = LevelOf(StringOf(*meta, kLogLevelKey))) {
      handed_on.before_call = [&, level](const std::string& server) {
        logs.emplace(gateway_, server, *level, emit);
      };
    }
  }
  if (expose != Expose::kAll && name == kCallTool) {
    return ResultResponse(
        gateway::CallTool(gateway_, arguments, handed_on, options));
  }
  auto tools = gateway_->tools();
  const GatewayTool* tool = tools->FindExposed(name);
  if (tool == nullptr) {
    tools = gateway_->AwaitTools(options.cancel);
    tool = tools->FindExposed(name);
  }
  if (tool == nullptr) {
    return WrongParams("Unknown tool: " + name);
  }
  return CallServer(gateway_, *tool, std::move(arguments), handed_on, options);
}

RpcResponse Session::SetLevel(const Ticket& ticket) {
  const std::string name = StringOf(ticket.request.params, "level");
  const auto level = LevelOf(name);
  if (!level) {
    return WrongParams("logging/setLevel: \"level\" must be one of: " +
                       LevelNames());
  }
  {
    MutexLock lock(mutex_);
    level_ = *level;
  }
  // A server that can't log less or more goes on as it does.
  for (const auto& upstream : gateway_->upstreams()) {
    const UpstreamView view = upstream->view();
    if (view.state != UpstreamState::kReady || !view.info.Has("logging")) {
      continue;
    }
    [[maybe_unused]] const auto ignored = upstream->Request(
        "logging/setLevel", {{"level", name}},
        {.timeout_ms = kSetLevelTimeoutMs, .cancel = &ticket.cancelled});
  }
  return ResultResponse(Json::object());
}

bool Session::Remember(const std::vector<std::string>& found) {
  MutexLock lock(mutex_);
  const std::vector<std::string> before = found_;
  for (const std::string& name : found) {
    if (std::find(found_.begin(), found_.end(), name) == found_.end()) {
      found_.push_back(name);
    }
  }
  if (found_.size() > kMaxFound) {
    found_.erase(found_.begin(),
                 found_.end() - static_cast<ptrdiff_t>(kMaxFound));
  }
  return found_ != before;
}

void Session::Handle(const RpcNotification& notification) {
  if (notification.method != "notifications/cancelled") return;
  if (!notification.params.is_object()) return;
  const auto id = notification.params.find("requestId");
  if (id == notification.params.end()) return;
  mcp::RpcId wanted;
  if (id->is_string()) {
    wanted = id->get<std::string>();
  } else if (id->is_number_integer()) {
    wanted = id->get<int64_t>();
  } else {
    return;
  }
  if (subscriptions_.Close(wanted)) return;
  MutexLock lock(mutex_);
  const auto found = running_.find(wanted);
  // The handshake can't be cancelled, says the protocol.
  if (found == running_.end() ||
      found->second->request.method == "initialize") {
    return;
  }
  found->second->cancelled = true;
}

void Session::CancelAll() {
  MutexLock lock(mutex_);
  for (auto& [id, ticket] : running_) ticket->cancelled = true;
}

std::vector<RpcResponse> Session::EndSubscriptions() {
  std::vector<RpcResponse> answers = subscriptions_.End();
  for (RpcResponse& answer : answers) {
    CompleteResponse(kListen, ServerInfo(), &answer);
  }
  return answers;
}

size_t Session::running() const {
  MutexLock lock(mutex_);
  return running_.size();
}

std::string Session::revision() const {
  MutexLock lock(mutex_);
  return revision_;
}

void Session::NotifyListChanged(ListKind kind) {
  if (revision().empty() || !options_.notify) return;
  options_.notify(
      {.method = ListChangedMethod(kind), .params = Json::object()});
}

void Session::OnToolsChanged() {
  subscriptions_.Tell(ListKind::kTools);
  switch (gateway_->options().expose) {
    case Expose::kFind:
      return;  // its list is always the same
    case Expose::kRouted: {
      MutexLock lock(mutex_);
      if (found_.empty()) return;
      break;
    }
    case Expose::kAll:
      break;
  }
  NotifyListChanged(ListKind::kTools);
}

void Session::OnPromptsChanged() {
  subscriptions_.Tell(ListKind::kPrompts);
  NotifyListChanged(ListKind::kPrompts);
}

void Session::OnResourcesChanged() {
  subscriptions_.Tell(ListKind::kResources);
  NotifyListChanged(ListKind::kResources);
}

void Session::OnNotification(const std::string& server,
                             const RpcNotification& notification) {
  if (!options_.notify) return;
  size_t level = 0;
  {
    MutexLock lock(mutex_);
    if (revision_.empty()) return;
    level = level_;
  }
  if (const auto log = LogForClient(server, notification, level)) {
    options_.notify(*log);
  }
}

}  // namespace nexus::gateway
