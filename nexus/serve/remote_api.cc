#include "nexus/serve/remote_api.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/remote/pool_metrics.h"
#include "nexus/serve/call_ids.h"
#include "nexus/serve/http_reply.h"
#include "nexus/serve/remote_answer.h"
#include "nexus/serve/remote_request.h"

namespace nexus::serve {

using net::ServerRequest;
using net::ServerResponse;

RemoteApi::RemoteApi(RemoteApiOptions options, remote::ChatClient* client,
                     ToolRouter* router, Metrics* metrics, Rest rest)
    : options_(std::move(options)),
      client_(client),
      router_(router),
      metrics_(metrics),
      rest_(std::move(rest)),
      started_at_(UnixSeconds()) {}

bool RemoteApi::KnowsModel(const std::string& name) const {
  return options_.model.empty() || name == options_.model ||
         std::find(options_.names.begin(), options_.names.end(), name) !=
             options_.names.end();
}

ServerResponse RemoteApi::Handle(const ServerRequest& request) {
  for (const char* path : {"/v1/embeddings", "/v1/rerank", "/v1/nexus/route"}) {
    if (request.path == path) return rest_(request);
  }
  for (const char* path :
       {"/v1/chat/completions", "/v1/models", "/health", "/metrics"}) {
    if (request.path != path) continue;
    ServerResponse response = Answer(request);
    metrics_->CountRequest(path, response.status);
    return response;
  }
  ServerResponse response = ErrorResponse(FromHttpStatus(
      404, "there is nothing at " + request.method + " " + request.path +
               " with --backend; docs/remote.md lists what is served"));
  metrics_->CountRequest("other", response.status);
  return response;
}

ServerResponse RemoteApi::Answer(const ServerRequest& request) {
  const bool is_chat = request.path == "/v1/chat/completions";
  const std::string method = is_chat ? "POST" : "GET";
  if (request.method != method) {
    ServerResponse response = ErrorResponse(
        FromHttpStatus(405, request.path + " takes " + method + " only"));
    response.headers["Allow"] = method;
    return response;
  }
  if (is_chat) return Chat(request);
  if (request.path == "/v1/models") return Models();
  return request.path == "/health" ? Health() : MetricsText();
}

ServerResponse RemoteApi::Chat(const ServerRequest& request) {
  RemoteJob job;
  job.arrived_at = Clock::Monotonic().Now();
  job.deadline = std::chrono::steady_clock::now() + options_.deadline;
  Json body;
  if (const auto error = ParseBody(request, &body)) {
    return ErrorResponse(*error);
  }
  if (const auto error = ParseRemoteRequest(body, &job.request)) {
    return ErrorResponse(*error);
  }
  if (!KnowsModel(job.request.model)) {
    return ErrorResponse(ModelNotFound(job.request.model, options_.model));
  }
  if (at_work_.fetch_add(1) >= options_.max_requests) {
    --at_work_;
    ++refused_;
    ApiError error = FromHttpStatus(
        429, std::to_string(options_.max_requests) + " requests are at work");
    error.retry_after_s = 1;
    return ErrorResponse(error);
  }
  // Until the answer's last byte.
  const std::shared_ptr<void> place(nullptr, [this](void*) { --at_work_; });
  if (request.Header("x-nexus") == "1") job.request.wants_report = true;
  job.mode = job.request.tools_mode.value_or(options_.tools_mode);
  job.form = options_.form;
  auto tools = ChooseRemoteTools(
      body, job.request, job.mode, options_.max_tools, router_,
      {.deadline = job.deadline, .is_client_gone = request.is_client_gone});
  if (!tools.ok()) return ErrorResponse(FromStatus(tools.status()));
  job.tools = *std::move(tools);
  job.outgoing =
      job.tools.sends_all
          ? remote::OutgoingRequest(body, options_.model)
          : remote::OutgoingRequest(body, job.request.tools, job.tools.pick,
                                    job.form, options_.model);
  if (body.contains("tools")) job.entries = body["tools"];
  job.head = {.id = NewId("chatcmpl-"),
              .created = UnixSeconds(),
              .model = job.request.model};
  job.is_client_gone = request.is_client_gone;
  const bool is_stream = job.request.stream;
  auto answer = std::make_shared<RemoteAnswer>(client_, std::move(job));
  ApiError error;
  if (!is_stream) {
    const auto whole = answer->Whole(&error);
    return whole.has_value() ? JsonResponse(*whole) : ErrorResponse(error);
  }
  // What fails before the first chunk still gets a status of its own.
  if (!answer->AwaitFirst(&error)) return ErrorResponse(error);
  ServerResponse response;
  response.content_type = "text/event-stream";
  response.headers["Cache-Control"] = "no-cache";
  response.stream = [answer, place](const net::StreamWriter& write) {
    return answer->Stream(write);
  };
  return response;
}

ServerResponse RemoteApi::Models() const {
  Json data = Json::array();
  const auto add = [&](const std::string& name, const char* owner) {
    if (name.empty()) return;
    data.push_back({{"id", name},
                    {"object", "model"},
                    {"created", started_at_},
                    {"owned_by", owner}});
  };
  if (options_.model.empty()) {
    for (const std::string& name : client_->pool().models()) {
      add(name, "backend");
    }
  } else {
    add(options_.model, "backend");
  }
  add(options_.embedding_model, "nexus");
  return JsonResponse({{"object", "list"}, {"data", std::move(data)}});
}

ServerResponse RemoteApi::Health() const {
  const remote::ReplicaSet& replicas = client_->pool().replicas();
  const size_t up = replicas.available();
  const char* status = draining_ ? "draining" : up == 0 ? "no backend" : "ok";
  return JsonResponse({{"status", status},
                       {"backends", {{"up", up}, {"total", replicas.size()}}}},
                      draining_ || up == 0 ? 503 : 200);
}

ServerResponse RemoteApi::MetricsText() const {
  // Nothing waits here: a request goes out, or is refused.
  Gauges gauges;
  gauges.scheduler.running = at_work_;
  gauges.scheduler.refused = refused_;
  if (connection_count_) gauges.connections = connection_count_();
  ServerResponse response = {};
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = metrics_->Text(gauges) +
                  remote::PoolMetricsText(client_->pool().replicas().counts(),
                                          client_->retries());
  return response;
}

}  // namespace nexus::serve
