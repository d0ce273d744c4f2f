#include "nexus/mcp/rpc_session.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/mcp/json_fields.h"

namespace nexus::mcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// How often a waiting call looks at its cancel flag.
constexpr milliseconds kCancelPoll{10};
// For telling the server of a cancelled request: its user is waiting.
constexpr int kCancelledTimeoutMs = 500;

// The gateway hands on what its clients wrote, and _meta is written into here.
Status CheckParams(const Json& params) {
  const auto no_object = [](const char* what, const Json& found) {
    return InvalidArgumentError(std::string(what) + ": expected an object, " +
                                "found " + found.type_name());
  };
  if (!params.is_object()) return no_object("\"params\"", params);
  const auto meta = params.find("_meta");
  if (meta != params.end() && !meta->is_null() && !meta->is_object()) {
    return no_object("\"_meta\"", *meta);
  }
  return {};
}

}  // namespace

RpcSession::RpcSession(RpcSessionOptions options,
                       std::unique_ptr<Transport> transport)
    : label_(std::move(options.label)),
      max_message_bytes_(options.max_message_bytes),
      log_(std::move(options.log)),
      on_notification_(std::move(options.on_notification)),
      on_closed_(std::move(options.on_closed)),
      transport_(std::move(transport)) {}

RpcSession::~RpcSession() { [[maybe_unused]] const Status ignored = Close(); }

Status RpcSession::Start() {
  return transport_->Start(
      {.on_message = [this](std::string_view text) { OnMessage(text); },
       .on_lost = [this](const Status& status) { FailAll(status, false); },
       .on_closed = [this](const Status& status) { FailAll(status, true); }});
}

Status RpcSession::Close() {
  {
    const std::lock_guard lock(mutex_);
    if (closed_.ok()) closed_ = CancelledError("the connection was closed");
  }
  changed_.notify_all();
  return transport_->Close();
}

void RpcSession::UseRevision(const std::string& version, Json request_meta) {
  transport_->SetProtocolVersion(version);
  request_meta_ = std::move(request_meta);
}

void RpcSession::set_tools_changed_callback(std::function<void()> callback) {
  const std::lock_guard lock(callback_mutex_);
  tools_changed_ = std::move(callback);
}

ClientCounters RpcSession::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

bool RpcSession::closed() const {
  const std::lock_guard lock(mutex_);
  return !closed_.ok();
}

Status RpcSession::Explain(const Status& status) const {
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

void RpcSession::OnMessage(std::string_view text) {
  auto messages = ParseRpc(text, label_, {.max_bytes = max_message_bytes_});
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

void RpcSession::OnResponse(RpcResponse response) {
  {
    const std::lock_guard lock(mutex_);
    auto found = pending_.end();
    if (const auto* id = std::get_if<int64_t>(&response.id)) {
      found = pending_.find(*id);
    } else if (std::holds_alternative<std::monostate>(response.id)) {
      // An error without an id can only mean the one request in flight.
      const auto waits = [](const auto& entry) {
        return !entry.second->is_open_ended;
      };
      if (std::count_if(pending_.begin(), pending_.end(), waits) == 1) {
        found = std::find_if(pending_.begin(), pending_.end(), waits);
      }
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

void RpcSession::OnRequest(const RpcRequest& request) {
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
      SerializeRpc(response), {.timeout_ms = RpcNotifyOptions().timeout_ms});
}

void RpcSession::OnNotification(const RpcNotification& notification) {
  {
    const std::lock_guard lock(mutex_);
    ++counters_.notifications;
  }
  const Json& params = notification.params;
  if (on_notification_ && notification.method != "notifications/progress") {
    on_notification_(notification);
  }
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
  } else if (notification.method == "notifications/message" && log_) {
    if (!params.is_object()) return;
    const auto data = params.find("data");
    if (data == params.end()) return;
    log_(StringOf(params, "level"),
         data->is_string() ? data->get<std::string>() : DumpJson(*data));
  }
}

void RpcSession::FailAll(const Status& status, bool closed) {
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
  if (closed && on_closed_) on_closed_();
}

Status RpcSession::Wait(const std::shared_ptr<Pending>& pending,
                        const RpcRequestOptions& options,
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

Result<RpcResponse> RpcSession::Exchange(const std::string& method, Json params,
                                         const RpcRequestOptions& options) {
  const nanoseconds deadline =
      Clock::Monotonic().Now() + milliseconds(options.timeout_ms);
  auto pending = std::make_shared<Pending>();
  pending->on_progress = options.on_progress;
  pending->is_open_ended = options.is_open_ended;
  RpcRequest request{.method = method};
  if (params.is_null()) params = Json::object();
  NEXUS_RETURN_IF_ERROR(CheckParams(params));
  int64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!closed_.ok()) return closed_;
    id = next_id_++;
    pending_[id] = pending;
  }
  request.id = id;
  if (!request_meta_.is_null()) params["_meta"].update(request_meta_);
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
       .method = request_meta_.is_null() ? std::string() : method,
       .tool_name = request_meta_.is_null() ? std::string() : options.subject,
       .headers = options.headers});
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
    const bool cancelled = status.code() == StatusCode::kCancelled;
    const bool gave_up =
        cancelled || status.code() == StatusCode::kDeadlineExceeded;
    if (was_waiting && gave_up && options.cancellable && !closed()) {
      RpcNotifyOptions courtesy;
      if (cancelled) courtesy.timeout_ms = kCancelledTimeoutMs;
      [[maybe_unused]] const Status ignored =
          Notify("notifications/cancelled",
                 {{"requestId", id}, {"reason", status.message()}}, courtesy);
    }
    return status;
  }
  return std::move(pending->response);
}

Result<Json> RpcSession::Request(const std::string& method, Json params,
                                 const RpcRequestOptions& options) {
  NEXUS_ASSIGN_OR_RETURN(RpcResponse response,
                         Exchange(method, std::move(params), options));
  if (!response.error) return std::move(response.result);
  std::string message =
      method + (options.subject.empty() ? "" : " '" + options.subject + "'") +
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

Status RpcSession::Notify(const std::string& method, Json params,
                          const RpcNotifyOptions& options) {
  return transport_->Send(
      SerializeRpc(RpcNotification{method, std::move(params)}),
      {.timeout_ms = options.timeout_ms,
       .cancel = options.cancel,
       .method = method});
}

}  // namespace nexus::mcp
