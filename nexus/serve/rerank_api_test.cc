#include "nexus/serve/rerank_api.h"

#include <cmath>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "nexus/base/json.h"
#include "nexus/base/test_util.h"
#include "nexus/route/testing/fake_embedder.h"

namespace nexus::serve {
namespace {

using ::testing::HasSubstr;

// A document's score is its length.
class LengthReranker : public llm::Reranker {
 public:
  Result<std::vector<float>> Score(
      std::string_view, std::span<const std::string> documents) override {
    std::vector<float> scores;
    for (const std::string& document : documents) {
      scores.push_back(static_cast<float>(document.size()));
    }
    return scores;
  }
  std::string name() const override { return "lengths"; }
  std::string fingerprint() const override { return "lengths"; }
};

net::ServerResponse Ask(ToolRouter* router, const std::string& body) {
  net::ServerRequest request;
  request.method = "POST";
  request.path = "/v1/rerank";
  request.body = body;
  return Rerank(request, router);
}

Json Body(const net::ServerResponse& response) {
  auto json = ParseJson(response.body, "answer");
  EXPECT_OK(json);
  return json.ok() ? *json : Json::object();
}

TEST(RerankTest, TheBestDocumentComesFirst) {
  ToolRouter router(nullptr, {}, std::make_unique<LengthReranker>());
  const auto response =
      Ask(&router, R"({"query": "q", "top_n": 2, "return_documents": true,
                       "documents": ["b", {"text": "cccc"}, ""]})");
  EXPECT_EQ(response.status, 200);
  const Json body = Body(response);
  EXPECT_EQ(body["model"], "lengths");
  ASSERT_EQ(body["results"].size(), 2U);
  EXPECT_EQ(body["results"][0]["index"], 1);
  EXPECT_EQ(body["results"][0]["document"]["text"], "cccc");
  EXPECT_NEAR(body["results"][0]["relevance_score"].get<double>(),
              1 / (1 + std::exp(-4.0)), 1e-6);
  EXPECT_EQ(body["results"][1]["index"], 0);
}

TEST(RerankTest, CosinesDoWithoutAReranker) {
  ToolRouter router(std::make_unique<route::FakeEmbedder>(), {});
  const Json body =
      Body(Ask(&router, R"({"model": "cosine", "query": "read a file",
                            "documents": ["send mail", "read the file"]})"));
  ASSERT_EQ(body["results"].size(), 2U);
  EXPECT_EQ(body["results"][0]["index"], 1);
  EXPECT_FALSE(body["results"][0].contains("document"));
}

TEST(RerankTest, WrongRequestsNameTheField) {
  ToolRouter router(nullptr, {}, std::make_unique<LengthReranker>());
  const auto expect = [&](const std::string& text, const char* param) {
    const auto response = Ask(&router, text);
    EXPECT_EQ(response.status, 400) << text;
    EXPECT_EQ(Body(response)["error"]["param"], param) << text;
  };
  expect(R"({"documents": ["a"]})", "query");
  expect(R"({"query": 7, "documents": ["a"]})", "query");
  expect(R"({"query": "q"})", "documents");
  expect(R"({"query": "q", "documents": []})", "documents");
  expect(R"({"query": "q", "documents": "a"})", "documents");
  expect(R"({"query": "q", "documents": ["a", 3]})", "documents[1]");
  expect(R"({"query": "q", "documents": [{"text": 3}]})", "documents[0].text");
  expect(R"({"query": "q", "documents": ["a"], "top_n": 0})", "top_n");
  EXPECT_EQ(Ask(&router, "[]").status, 400);
  EXPECT_EQ(Ask(&router, "{").status, 400);
  const auto unknown =
      Ask(&router, R"({"model": "x", "query": "q", "documents": ["a"]})");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_THAT(unknown.body, HasSubstr("lengths"));
}

TEST(RerankTest, WithoutAModelItSaysSo) {
  ToolRouter router(nullptr, {});
  EXPECT_EQ(Ask(&router, R"({"query": "q", "documents": ["a"]})").status, 501);
}

}  // namespace
}  // namespace nexus::serve
