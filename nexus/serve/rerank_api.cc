#include "nexus/serve/rerank_api.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "nexus/serve/field_reader.h"
#include "nexus/serve/http_reply.h"

namespace nexus::serve {
namespace {

// Each costs as much as embedding a text.
constexpr size_t kMaxDocuments = 1024;

struct RerankRequest {
  std::string model;
  std::string query;
  std::vector<std::string> documents;
  size_t top_n = kMaxDocuments;
  bool return_documents = false;
};

std::optional<ApiError> Read(const Json& body, RerankRequest* request) {
  FieldReader read;
  read.Read(body, "", "model", &request->model);
  read.Read(body, "", "query", &request->query);
  read.Read(body, "", "return_documents", &request->return_documents);
  std::optional<int64_t> top_n;
  read.ReadInteger(body, "top_n", {.low = 1, .high = 1e9}, &top_n);
  if (top_n.has_value()) request->top_n = static_cast<size_t>(*top_n);
  const Json* documents = read.FindArray(body, "", "documents", kMaxDocuments);
  for (size_t i = 0; documents != nullptr && i < documents->size(); ++i) {
    const Json& document = (*documents)[i];
    const std::string path = ItemPath("documents", i);
    if (document.is_string()) {
      request->documents.push_back(document.get<std::string>());
    } else if (document.is_object() && document.contains("text")) {
      read.Read(document, path, "text", &request->documents.emplace_back());
    } else {
      read.Fail(path, "expected a string or an object with \"text\"");
    }
  }
  if (request->query.empty()) read.Fail("query", "expected some text");
  if (request->documents.empty()) {
    read.Fail("documents", "expected at least one");
  }
  return read.TakeError();
}

}  // namespace

net::ServerResponse Rerank(const net::ServerRequest& request,
                           ToolRouter* router, const Caller& caller) {
  Json body;
  if (const auto error = ParseBody(request, &body)) {
    return ErrorResponse(*error);
  }
  RerankRequest wanted;
  if (const auto error = Read(body, &wanted)) return ErrorResponse(*error);
  const std::string scorer = router->scorer();
  if (scorer.empty()) {
    ApiError error = FromHttpStatus(
        501, "this server runs without a re-ranker and without an encoder");
    return ErrorResponse(error);
  }
  if (!wanted.model.empty() && wanted.model != scorer) {
    return ErrorResponse(ModelNotFound(wanted.model, scorer));
  }
  auto scores = router->Score(wanted.query, wanted.documents, caller);
  if (!scores.ok()) return ErrorResponse(FromStatus(scores.status()));
  if (router->has_reranker()) {
    for (float& score : *scores) score = 1 / (1 + std::exp(-score));
  }
  std::vector<size_t> order(scores->size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return (*scores)[a] > (*scores)[b];
  });
  if (order.size() > wanted.top_n) order.resize(wanted.top_n);
  Json results = Json::array();
  for (const size_t i : order) {
    Json result = {{"index", i}, {"relevance_score", (*scores)[i]}};
    if (wanted.return_documents) {
      result["document"] = {{"text", wanted.documents[i]}};
    }
    results.push_back(std::move(result));
  }
  // Neither model counts its tokens.
  return JsonResponse({{"object", "list"},
                       {"model", scorer},
                       {"results", std::move(results)},
                       {"usage", {{"prompt_tokens", 0}, {"total_tokens", 0}}}});
}

}  // namespace nexus::serve
