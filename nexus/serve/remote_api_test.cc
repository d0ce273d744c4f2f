// RemoteApi over a remote that says what it is told: routing, what goes out,
// what comes back.
#include "nexus/serve/remote_api.h"

#include <mutex>
#include <vector>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/net/testing/http_test_server.h"

namespace nexus::serve {
namespace {

using net::ServerRequest;
using net::ServerResponse;
using net::TestRequest;
using net::TestResponse;
using net::TestWriter;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::SizeIs;

Json Tool(const char* name, const char* description, const char* parameter) {
  return {{"type", "function"},
          {"function",
           {{"name", name},
            {"description", description},
            {"parameters",
             {{"type", "object"},
              {"properties", {{parameter, {{"type", "string"}}}}},
              {"required", Json::array({parameter})}}}}}};
}

const Json& Tools() {
  static const Json tools = Json::array(
      {Tool("get_weather", "Get the current weather in a city", "city"),
       Tool("send_email", "Send an email message to a person", "to"),
       Tool("convert_currency", "Convert money between currencies", "amount")});
  return tools;
}

class RemoteApiTest : public testing::Test {
 protected:
  void Start(RemoteApiOptions options = {}) {
    const std::vector<std::string> texts = {server_.Url("")};
    ASSERT_OK_AND_ASSIGN(const auto urls, remote::ParseBackendUrls(texts));
    remote::BackendPoolOptions pool;
    pool.probe_interval = milliseconds(0);
    ASSERT_OK_AND_ASSIGN(pool_, remote::BackendPool::Create(urls, pool));
    remote::ChatClientOptions client;
    client.sleep = [](milliseconds) { return true; };
    client_ = std::make_unique<remote::ChatClient>(pool_.get(), client);
    api_ = std::make_unique<RemoteApi>(
        std::move(options), client_.get(), &router_, &metrics_,
        [](const ServerRequest& request) {
          ServerResponse response;
          response.body = "rest: " + request.path;
          return response;
        });
  }

  TestResponse Answer(const TestRequest& request) {
    const std::lock_guard lock(mutex_);
    if (request.method != "POST") return {};
    sent_ = Json::parse(request.body);
    TestResponse response;
    response.status = status_;
    response.body = answer_;
    if (sent_.value("stream", false) && status_ == 200) {
      response.content_type = "text/event-stream";
      response.stream = [this](const TestWriter& write) { write(answer_); };
    }
    return response;
  }

  void AnswerWords() {
    answer_ = R"({"id": "theirs", "model": "theirs", "created": 5, "more": 1,
      "choices": [{"index": 0, "message": {"role": "assistant",
        "content": "Hi."}, "finish_reason": "stop"}]})";
  }

  void AnswerCall(const char* name, const char* arguments) {
    const Json call = {
        {"id", "c"},
        {"type", "function"},
        {"function", {{"name", name}, {"arguments", arguments}}}};
    const Json message = {{"role", "assistant"},
                          {"content", nullptr},
                          {"tool_calls", Json::array({call})}};
    answer_ = DumpJson(
        Json{{"choices", Json::array({{{"index", 0},
                                       {"message", message},
                                       {"finish_reason", "tool_calls"}}})}});
  }

  ServerResponse Post(const Json& body) {
    ServerRequest request;
    request.method = "POST";
    request.path = "/v1/chat/completions";
    request.body = DumpJson(body);
    return api_->Handle(request);
  }
  ServerResponse Get(const char* path) {
    ServerRequest request;
    request.method = "GET";
    request.path = path;
    return api_->Handle(request);
  }
  static Json Question(const char* text) {
    return {{"model", "m"},
            {"messages", Json::array({{{"role", "user"}, {"content", text}}})},
            {"tools", Tools()},
            {"nexus", true}};
  }
  std::vector<std::string> NamesSent() const {
    std::vector<std::string> names;
    if (!sent_.contains("tools")) return names;
    for (const Json& tool : sent_["tools"]) {
      names.push_back(tool["function"]["name"]);
    }
    return names;
  }

  std::mutex mutex_;
  int status_ = 200;
  std::string answer_;
  Json sent_;
  net::HttpTestServer server_{
      [this](const TestRequest& request) { return Answer(request); }};
  std::unique_ptr<remote::BackendPool> pool_;
  std::unique_ptr<remote::ChatClient> client_;
  ToolRouter router_{nullptr, {}};
  Metrics metrics_;
  std::unique_ptr<RemoteApi> api_;
};

TEST_F(RemoteApiTest, PassesOnWhatItDoesntKnow) {
  Start();
  AnswerWords();
  Json body = Question("hello");
  body.erase("tools");
  body["top_k"] = 3;
  body["n"] = 2;
  body["messages"][0]["content"] = Json::array(
      {{{"type", "image_url"}, {"image_url", {{"url", "data:x"}}}}});
  const Json answer = Json::parse(Post(body).body);
  body.erase("nexus");
  EXPECT_EQ(sent_, body);
  EXPECT_EQ(answer["model"], "m");
  EXPECT_THAT(answer["id"].get<std::string>(), HasSubstr("chatcmpl-"));
  EXPECT_EQ(answer["more"], 1);
  EXPECT_EQ(answer["created"], 5);
  EXPECT_EQ(answer["choices"][0]["message"]["content"], "Hi.");
  EXPECT_EQ(answer["nexus"]["tier"], "remote");
  EXPECT_EQ(answer["nexus"]["backend"]["attempts"], 1);
}

TEST_F(RemoteApiTest, SendsTheRoutedToolAloneAndForcesIt) {
  Start();
  AnswerCall("get_weather", R"({"city": "Paris"})");
  const Json answer =
      Json::parse(Post(Question("get_weather in Paris please")).body);
  EXPECT_EQ(NamesSent(), std::vector<std::string>{"get_weather"});
  EXPECT_EQ(sent_["tool_choice"], "required");
  EXPECT_EQ(sent_["tools"][0], Tools()[0]);
  EXPECT_EQ(answer["nexus"]["route"]["tool"], "get_weather");
  EXPECT_EQ(answer["nexus"]["tools"]["given"], 3);
  EXPECT_EQ(answer["nexus"]["tools"]["sent"], 1);
}

TEST_F(RemoteApiTest, SendsTheBestFewWhenTheRouterIsntSure) {
  RemoteApiOptions options;
  options.max_tools = 2;
  Start(options);
  AnswerWords();
  // A word of each of two tools.
  Post(Question("a city and a person"));
  EXPECT_THAT(NamesSent(), SizeIs(2));
  EXPECT_FALSE(sent_.contains("tool_choice"));
}

TEST_F(RemoteApiTest, PinSendsAllAsTheyAre) {
  RemoteApiOptions options;
  options.tools_mode = ToolsMode::kPin;
  Start(options);
  AnswerCall("send_email", R"({"to": "Ann"})");
  Json body = Question("get_weather in Paris please");
  body["tool_choice"] = {{"type", "function"},
                         {"function", {{"name", "send_email"}}}};
  Post(body);
  EXPECT_EQ(sent_["tools"], Tools());
  EXPECT_EQ(sent_["tool_choice"], body["tool_choice"]);
  // The request's own word counts more.
  body["nexus"] = {{"tools", "route"}};
  Post(body);
  EXPECT_EQ(NamesSent(), std::vector<std::string>{"send_email"});
  EXPECT_EQ(sent_["tool_choice"], "required");
}

TEST_F(RemoteApiTest, ChoiceNoneSendsNoTools) {
  Start();
  AnswerWords();
  Json body = Question("get_weather in Paris please");
  body["tool_choice"] = "none";
  Post(body);
  EXPECT_FALSE(sent_.contains("tools"));
  EXPECT_FALSE(sent_.contains("tool_choice"));
}

TEST_F(RemoteApiTest, ForcesNothingBehindAToolsResult) {
  RemoteApiOptions options;
  options.max_tools = 1;
  Start(options);
  AnswerWords();
  Json body = Question("get_weather in Paris please");
  body["messages"].push_back(
      {{"role", "assistant"},
       {"tool_calls",
        Json::array(
            {{{"id", "c"},
              {"type", "function"},
              {"function", {{"name", "send_email"}, {"arguments", "{}"}}}}})}});
  body["messages"].push_back(
      {{"role", "tool"}, {"tool_call_id", "c"}, {"content", "done"}});
  Post(body);
  EXPECT_EQ(NamesSent(),
            (std::vector<std::string>{"get_weather", "send_email"}));
  EXPECT_FALSE(sent_.contains("tool_choice"));
}

TEST_F(RemoteApiTest, RenamesTheModelAndRefusesOthers) {
  RemoteApiOptions options;
  options.model = "big";
  options.names = {"alias"};
  Start(options);
  AnswerWords();
  Json body = Question("hello");
  body["model"] = "alias";
  const Json answer = Json::parse(Post(body).body);
  EXPECT_EQ(sent_["model"], "big");
  EXPECT_EQ(answer["model"], "alias");
  body["model"] = "other";
  EXPECT_EQ(Post(body).status, 404);
}

TEST_F(RemoteApiTest, StreamsChunksWithTheReportInTheLast) {
  Start();
  answer_ =
      "data: {\"id\": \"t\", \"model\": \"t\", \"choices\": [{\"index\": 0, "
      "\"delta\": {\"content\": \"Hi\"}, \"finish_reason\": null}]}\n\n"
      "data: {\"id\": \"t\", \"model\": \"t\", \"choices\": [{\"index\": 0, "
      "\"delta\": {}, \"finish_reason\": \"stop\"}]}\n\ndata: [DONE]\n\n";
  Json body = Question("hello");
  body["stream"] = true;
  const ServerResponse response = Post(body);
  ASSERT_EQ(response.status, 200);
  EXPECT_EQ(response.content_type, "text/event-stream");
  std::vector<std::string> events;
  EXPECT_TRUE(response.stream([&](std::string_view piece) {
    events.emplace_back(piece);
    return true;
  }));
  ASSERT_THAT(events, SizeIs(3));
  const Json first = Json::parse(events[0].substr(6));
  EXPECT_EQ(first["choices"][0]["delta"]["content"], "Hi");
  EXPECT_EQ(first["model"], "m");
  EXPECT_FALSE(first.contains("nexus"));
  EXPECT_EQ(Json::parse(events[1].substr(6))["nexus"]["tier"], "remote");
  EXPECT_EQ(events[2], "data: [DONE]\n\n");
}

TEST_F(RemoteApiTest, MetricsTellWhatIsGoingOn) {
  Start({.max_requests = 2});
  answer_ =
      "data: {\"choices\": [{\"index\": 0, \"delta\": {\"content\": \"Hi\"}, "
      "\"finish_reason\": \"stop\"}]}\n\ndata: [DONE]\n\n";
  Json body = Question("hello");
  body["stream"] = true;
  const auto has = [&](const char* line) {
    return testing::Value(Get("/metrics").body,
                          HasSubstr("\n" + std::string(line) + "\n"));
  };
  // Before there is a server to count them.
  EXPECT_TRUE(has("nexus_connections 0"));
  size_t connections = 3;
  api_->SetConnectionCount([&] { return connections; });
  EXPECT_TRUE(has("nexus_connections 3"));
  connections = 2;
  EXPECT_TRUE(has("nexus_connections 2"));
  EXPECT_TRUE(has("nexus_requests_running 0"));
  {
    // Both at work until their last byte is out.
    const ServerResponse first = Post(body);
    EXPECT_TRUE(has("nexus_requests_running 1"));
    const ServerResponse second = Post(body);
    EXPECT_TRUE(has("nexus_requests_running 2"));
    EXPECT_EQ(Post(body).status, 429);
    EXPECT_TRUE(has("nexus_requests_running 2"));
    EXPECT_TRUE(has("nexus_requests_refused_total 1"));
  }
  EXPECT_TRUE(has("nexus_requests_running 0"));
}

TEST_F(RemoteApiTest, AHalfStreamEndsWithAnError) {
  Start();
  answer_ =
      "data: {\"choices\": [{\"index\": 0, \"delta\": {\"content\": "
      "\"Hi\"}}]}\n\n";
  Json body = Question("hello");
  body["stream"] = true;
  const ServerResponse response = Post(body);
  ASSERT_EQ(response.status, 200);
  std::string all;
  response.stream([&](std::string_view piece) {
    all += piece;
    return true;
  });
  EXPECT_THAT(all, HasSubstr("backend_bad_answer"));
  EXPECT_EQ(all.find("[DONE]"), std::string::npos);
}

TEST_F(RemoteApiTest, ErrorsHaveOpenAisShape) {
  Start();
  status_ = 429;
  answer_ =
      R"({"error": {"message": "no money", "code": "insufficient_quota"}})";
  for (const bool is_stream : {false, true}) {
    Json body = Question("hello");
    body["stream"] = is_stream;
    const ServerResponse response = Post(body);
    EXPECT_EQ(response.status, 429);
    const Json error = Json::parse(response.body)["error"];
    EXPECT_EQ(error["type"], "rate_limit_error");
    EXPECT_EQ(error["code"], "insufficient_quota");
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("no money"));
  }
}

TEST_F(RemoteApiTest, RefusesWhatIsNoRequest) {
  Start();
  AnswerWords();
  for (const char* text :
       {"[]", "{}", R"({"model": "m"})", R"({"model": "m", "messages": []})",
        R"({"model": "m", "messages": [1]})",
        R"({"model": 1, "messages": [{}]})",
        R"({"model": "m", "messages": [{}], "tools": [1]})",
        R"({"model": "m", "messages": [{}], "tool_choice": "maybe"})",
        R"({"model": "m", "messages": [{}], "stream": "yes"})",
        R"({"model": "m", "messages": [{}], "nexus": 3})"}) {
    const ServerResponse response = Post(Json::parse(text));
    EXPECT_EQ(response.status, 400) << text;
    EXPECT_TRUE(Json::parse(response.body)["error"].contains("message"));
  }
}

TEST_F(RemoteApiTest, AnswersWhatNeedsNoChat) {
  Start();
  EXPECT_EQ(Get("/health").status, 200);
  EXPECT_THAT(Get("/metrics").body, HasSubstr("nexus_backend_up{backend="));
  EXPECT_EQ(Get("/v1/models").status, 200);
  EXPECT_EQ(Get("/v1/embeddings").body, "rest: /v1/embeddings");
  EXPECT_EQ(Get("/v1/responses").status, 404);
  EXPECT_EQ(Get("/v1/chat/completions").status, 405);
  pool_->replicas().ReportProbe(0, false);
  EXPECT_EQ(Get("/health").status, 503);
  pool_->replicas().ReportProbe(0, true);
  api_->SetDraining();
  EXPECT_EQ(Get("/health").status, 503);
}

}  // namespace
}  // namespace nexus::serve
