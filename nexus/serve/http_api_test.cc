// What the endpoints say without a model behind them; with one, serve_e2e_test
// asks them all.
#include "nexus/serve/http_api.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "nexus/base/json.h"

namespace nexus::serve {
namespace {

using ::testing::HasSubstr;

net::ServerResponse Post(HttpApi& api, const std::string& path,
                         const std::string& body) {
  net::ServerRequest request;
  request.method = "POST";
  request.path = path;
  request.body = body;
  return api.Handle(request);
}

TEST(HttpApiTest, WhatNeedsAnEncoderSaysThatThereIsNone) {
  ToolRouter router(nullptr, {});
  Metrics metrics;
  HttpApi api({.model = "m"}, {.router = &router, .metrics = &metrics});
  for (const auto& [path, body] :
       {std::pair<std::string, std::string>{"/v1/embeddings",
                                            R"({"model": "e", "input": "hi"})"},
        {"/v1/rerank", R"({"query": "q", "documents": ["a"]})"}}) {
    const auto response = Post(api, path, body);
    EXPECT_EQ(response.status, 501) << path;
    EXPECT_THAT(response.body, HasSubstr("without an encoder")) << path;
  }
}

TEST(HttpApiTest, EmbeddingsRefuseWhatTheyCannotDo) {
  ToolRouter router(nullptr, {});
  Metrics metrics;
  HttpApi api({.model = "m"}, {.router = &router, .metrics = &metrics});
  const auto refusal = [&](const std::string& fields) {
    const auto response = Post(api, "/v1/embeddings", "{" + fields + "}");
    EXPECT_EQ(response.status, 400) << fields;
    return response.body;
  };
  EXPECT_THAT(refusal(R"("input": "hi", "dimensions": 64)"),
              HasSubstr("dimensions"));
  // As LangChain sends them by default.
  EXPECT_THAT(refusal(R"("input": [[15339, 1917]])"),
              HasSubstr("tokens can't be taken"));
}

}  // namespace
}  // namespace nexus::serve
