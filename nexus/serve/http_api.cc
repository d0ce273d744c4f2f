#include "nexus/serve/http_api.h"

#include <algorithm>
#include <utility>

#include "nexus/base/base64.h"
#include "nexus/base/clock.h"
#include "nexus/serve/answer_writer.h"
#include "nexus/serve/call_ids.h"
#include "nexus/serve/field_reader.h"
#include "nexus/serve/http_reply.h"
#include "nexus/serve/page_assets.h"
#include "nexus/serve/report_json.h"
#include "nexus/serve/rerank_api.h"
#include "nexus/serve/responses_api.h"

namespace nexus::serve {
namespace {

using net::ServerRequest;
using net::ServerResponse;

constexpr size_t kMaxEmbeddingInputs = 2048;

ServerResponse JsonOrError(const Result<Json>& body) {
  return body.ok() ? JsonResponse(*body)
                   : ErrorResponse(FromStatus(body.status()));
}

}  // namespace

HttpApi::HttpApi(HttpApiOptions options, const Parts& parts)
    : options_(std::move(options)),
      started_at_(UnixSeconds()),
      parts_(parts),
      inspect_(parts.engine, &options_.registry) {}

std::string HttpApi::ErrorBody(int status, std::string_view message) {
  return DumpJson(ToJson(FromHttpStatus(status, message)));
}

bool HttpApi::KnowsModel(const std::string& name) const {
  return name == options_.model ||
         std::find(options_.names.begin(), options_.names.end(), name) !=
             options_.names.end();
}

ServerResponse HttpApi::Handle(const ServerRequest& request) {
  struct Route {
    const char* method;
    const char* path;
    std::function<ServerResponse()> answer;
  };
  const Route routes[] = {
      {"POST", "/v1/chat/completions", [&] { return Chat(request); }},
      {"POST", "/v1/responses", [&] { return Responses(request); }},
      {"GET", "/v1/models", [&] { return Models(); }},
      {"POST", "/v1/embeddings", [&] { return Embeddings(request); }},
      {"POST", "/v1/rerank",
       [&] { return Rerank(request, parts_.router, CallerOf(request)); }},
      {"POST", "/v1/nexus/route", [&] { return this->Route(request); }},
      {"GET", "/v1/nexus/server", [&] { return Server(); }},
      {"GET", "/v1/nexus/tools", [&] { return JsonOrError(inspect_.Tools()); }},
      {"GET", "/v1/nexus/store", [&] { return JsonOrError(inspect_.Store()); }},
      {"GET", "/v1/nexus/profile",
       [&] { return JsonResponse(inspect_.Profile()); }},
      {"GET", "/health",
       [&] {
         const bool draining = draining_;
         return JsonResponse({{"status", draining ? "draining" : "ok"}},
                             draining ? 503 : 200);
       }},
      {"GET", "/metrics", [&] { return MetricsText(); }}};
  for (const Route& route : routes) {
    if (request.path != route.path) continue;
    ServerResponse response;
    if (request.method == route.method) {
      response = route.answer();
    } else {
      response = ErrorResponse(FromHttpStatus(
          405, request.path + " takes " + route.method + " only"));
      response.headers["Allow"] = route.method;
    }
    parts_.metrics->CountRequest(route.path, response.status);
    return response;
  }
  const PageAsset* asset = FindPageAsset(request.path);
  if (asset != nullptr && request.method == "GET") {
    parts_.metrics->CountRequest("page", 200);
    return PageResponse(*asset);
  }
  ServerResponse response = ErrorResponse(FromHttpStatus(
      404, "there is nothing at " + request.method + " " + request.path +
               "; docs/http_api.md lists what is "
               "served"));
  parts_.metrics->CountRequest("other", response.status);
  return response;
}

Caller HttpApi::CallerOf(const ServerRequest& request) const {
  return {.deadline = std::chrono::steady_clock::now() + options_.deadline,
          .is_client_gone = request.is_client_gone};
}

ServerResponse HttpApi::Chat(const ServerRequest& request) {
  const Caller caller = CallerOf(request);
  Json body;
  if (const auto error = ParseBody(request, &body))
    return ErrorResponse(*error);
  ChatRequest chat;
  if (const auto error = ParseChatRequest(body, &chat)) {
    return ErrorResponse(*error);
  }
  auto format =
      std::make_unique<ChatChunks>(NewHead("chatcmpl-"), chat.include_usage);
  return Answer(request, std::move(chat), std::move(format), caller);
}

ServerResponse HttpApi::Responses(const ServerRequest& request) {
  const Caller caller = CallerOf(request);
  Json body;
  if (const auto error = ParseBody(request, &body))
    return ErrorResponse(*error);
  ChatRequest chat;
  Json echo;
  if (const auto error = ParseResponsesRequest(body, &chat, &echo)) {
    return ErrorResponse(*error);
  }
  auto format = std::make_unique<ResponseEvents>(
      NewHead("resp_"), std::move(echo), chat.namespaced);
  return Answer(request, std::move(chat), std::move(format), caller);
}

ChatHead HttpApi::NewHead(std::string_view id_prefix) const {
  return {.id = NewId(id_prefix),
          .created = UnixSeconds(),
          .model = options_.model};
}

ServerResponse HttpApi::Answer(const ServerRequest& request, ChatRequest chat,
                               std::unique_ptr<AnswerFormat> format,
                               const Caller& caller) {
  if (!KnowsModel(chat.model)) {
    return ErrorResponse(ModelNotFound(chat.model, options_.model));
  }
  if (request.Header("x-nexus") == "1") chat.wants_report = true;
  chat.id = request.id;
  const bool stream = chat.stream;
  ChatService::Accepted accepted;
  if (const auto error =
          parts_.chat->Submit(std::move(chat), &accepted, caller)) {
    return ErrorResponse(*error);
  }
  auto writer = std::make_shared<AnswerWriter>(std::move(format),
                                               std::move(accepted), caller);
  if (!stream) {
    ApiError error;
    const auto whole = writer->Whole(&error);
    return whole.has_value() ? JsonResponse(*whole) : ErrorResponse(error);
  }
  // What fails before the first event still gets a status of its own.
  ApiError error;
  if (!writer->AwaitFirst(&error)) return ErrorResponse(error);
  ServerResponse response;
  response.content_type = "text/event-stream";
  response.headers["Cache-Control"] = "no-cache";
  response.stream = [writer](const net::StreamWriter& write) {
    return writer->Stream(write);
  };
  return response;
}

ServerResponse HttpApi::Models() const {
  Json data = Json::array();
  const auto add = [&](const std::string& name) {
    if (name.empty()) return;
    data.push_back({{"id", name},
                    {"object", "model"},
                    {"created", started_at_},
                    {"owned_by", "nexus"}});
  };
  add(options_.model);
  add(options_.embedding_model);
  return JsonResponse({{"object", "list"}, {"data", std::move(data)}});
}

ServerResponse HttpApi::Server() const {
  return JsonResponse(
      {{"model", options_.model},
       {"aliases", options_.names},
       {"encoder", options_.embedding_model.empty()
                       ? Json(nullptr)
                       : Json(options_.embedding_model)},
       {"tools_mode", std::string(ToolsModeName(options_.tools_mode))},
       {"tools", options_.registry.size()},
       {"context_tokens", parts_.engine->options().context_tokens},
       {"splicing", parts_.engine->splice_status().ok()
                        ? Json(nullptr)
                        : Json(parts_.engine->splice_status().message())}});
}

ServerResponse HttpApi::Embeddings(const ServerRequest& request) {
  const Caller caller = CallerOf(request);
  Json body;
  if (const auto error = ParseBody(request, &body))
    return ErrorResponse(*error);
  FieldReader read;
  std::string model;
  std::string format = "float";
  std::string role = "document";
  read.Read(body, "", "model", &model);
  read.Read(body, "", "encoding_format", &format);
  if (const Json* own = read.FindObject(body, "", "nexus")) {
    read.Read(*own, "nexus", "role", &role);
  }
  std::vector<std::string> texts;
  const Json* input = read.Find(body, "input");
  if (input != nullptr && input->is_string()) {
    texts.push_back(input->get<std::string>());
  } else if (input != nullptr) {
    input = read.FindArray(body, "", "input", kMaxEmbeddingInputs);
    for (size_t i = 0; input != nullptr && i < input->size(); ++i) {
      if (!(*input)[i].is_string()) {
        read.Fail(ItemPath("input", i),
                  "expected a string; tokens can't be taken");
        break;
      }
      texts.push_back((*input)[i].get<std::string>());
    }
  }
  if (texts.empty()) read.Fail("input", "expected a string or some of them");
  read.RefuseUnless(body, "dimensions", nullptr,
                    "isn't supported: vectors come as the encoder makes them");
  if (format != "float" && format != "base64") {
    read.Fail("encoding_format", "expected float or base64");
  }
  if (role != "document" && role != "query") {
    read.Fail("nexus.role", "expected document or query");
  }
  if (const auto error = read.TakeError()) return ErrorResponse(*error);
  if (!parts_.router->has_encoder()) {
    return ErrorResponse(
        FromHttpStatus(501, "this server runs without an encoder"));
  }
  if (model != options_.embedding_model) {
    return ErrorResponse(ModelNotFound(model, options_.embedding_model));
  }
  const auto vectors = parts_.router->Embed(
      texts, role == "query" ? llm::TextRole::kQuery : llm::TextRole::kDocument,
      caller);
  if (!vectors.ok()) return ErrorResponse(FromStatus(vectors.status()));
  Json data = Json::array();
  for (const std::vector<float>& vector : *vectors) {
    data.push_back({{"object", "embedding"},
                    {"index", data.size()},
                    {"embedding", format == "base64" ? Json(Base64(vector))
                                                     : Json(vector)}});
  }
  // The encoder doesn't count its tokens.
  return JsonResponse({{"object", "list"},
                       {"data", std::move(data)},
                       {"model", options_.embedding_model},
                       {"usage", {{"prompt_tokens", 0}, {"total_tokens", 0}}}});
}

ServerResponse HttpApi::Route(const ServerRequest& request) {
  const Caller caller = CallerOf(request);
  Json body;
  if (const auto error = ParseBody(request, &body))
    return ErrorResponse(*error);
  FieldReader read;
  std::string query;
  std::optional<int64_t> top_k;
  read.Read(body, "", "query", &query);
  read.ReadInteger(body, "top_k", {1, 1000}, &top_k);
  std::vector<schema::ToolSchema> tools;
  const Json* given = read.FindArray(body, "", "tools", kMaxTools);
  for (size_t i = 0; given != nullptr && i < given->size(); ++i) {
    auto tool = schema::ParseTool((*given)[i], "", ItemPath("tools", i));
    if (!tool.ok()) {
      ApiError error = FromStatus(tool.status());
      error.param = ItemPath("tools", i);
      read.Fail(std::move(error));
      break;
    }
    tools.push_back(*std::move(tool));
  }
  if (query.empty()) read.Fail("query", "is missing");
  if (given == nullptr && options_.registry.empty()) {
    read.Fail("tools", "is missing, and the server has no registry of its own");
  }
  if (const auto error = read.TakeError()) return ErrorResponse(*error);
  route::RouteOptions options;
  if (top_k.has_value()) options.top_k = static_cast<int>(*top_k);
  const auto decision = parts_.router->Route(
      given == nullptr ? options_.registry : tools, query, options, caller);
  if (!decision.ok()) return ErrorResponse(FromStatus(decision.status()));
  return JsonResponse(RouteJson(*decision));
}

ServerResponse HttpApi::MetricsText() const {
  Gauges gauges;
  gauges.scheduler = parts_.chat->scheduler_counts();
  gauges.sessions = parts_.chat->session_counts();
  gauges.batch = parts_.chat->batch_counts();
  if (connection_count_) gauges.connections = connection_count_();
  ServerResponse response;
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  response.body = parts_.metrics->Text(gauges);
  return response;
}

}  // namespace nexus::serve
