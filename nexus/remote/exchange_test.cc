// Checked calls and the repair round, against a server that says what it is
// told.
#include "nexus/remote/exchange.h"

#include <atomic>
#include <mutex>
#include <vector>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/net/testing/http_test_server.h"
#include "nexus/remote/answer_parts.h"

namespace nexus::remote {
namespace {

using net::TestRequest;
using net::TestResponse;
using net::TestWriter;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::SizeIs;

Json CallAnswer(const char* arguments, const char* name = "get_weather") {
  return Json{
      {"id", "x"},
      {"choices",
       Json::array(
           {{{"index", 0},
             {"message",
              {{"role", "assistant"},
               {"content", nullptr},
               {"tool_calls", Json::array({{{"id", "c1"},
                                            {"type", "function"},
                                            {"function",
                                             {{"name", name},
                                              {"arguments", arguments}}}}})}}},
             {"finish_reason", "tool_calls"}}})},
      {"usage",
       {{"prompt_tokens", 10},
        {"completion_tokens", 5},
        {"total_tokens", 15}}}};
}

std::string Event(const Json& data) {
  return "data: " + DumpJson(data) + "\n\n";
}

Json Delta(const char* delta, const char* reason = nullptr) {
  Json choice = {
      {"index", 0}, {"delta", Json::parse(delta)}, {"finish_reason", nullptr}};
  if (reason != nullptr) choice["finish_reason"] = reason;
  return Json{{"id", "x"}, {"created", 7}, {"choices", Json::array({choice})}};
}

class ExchangeTest : public testing::Test {
 protected:
  void SetUp() override {
    entries_ = Json::parse(R"([{"type": "function", "function": {
        "name": "get_weather", "parameters": {"type": "object",
          "properties": {"city": {"type": "string", "minLength": 2}},
          "required": ["city"]}}}])");
    ASSERT_OK_AND_ASSIGN(auto tool, schema::ParseTool(entries_[0], "", "test"));
    tools_ = {tool};
    const std::vector<std::string> texts = {server_.Url("")};
    ASSERT_OK_AND_ASSIGN(const auto urls, ParseBackendUrls(texts));
    BackendPoolOptions options;
    options.probe_interval = milliseconds(0);
    ASSERT_OK_AND_ASSIGN(pool_, BackendPool::Create(urls, options));
    ChatClientOptions client;
    client.sleep = [](milliseconds) { return true; };
    client_ = std::make_unique<ChatClient>(pool_.get(), client);
  }

  TestResponse Answer(const TestRequest& request) {
    const std::lock_guard lock(mutex_);
    requests_.push_back(Json::parse(request.body));
    TestResponse response;
    if (requests_.back().value("stream", false)) {
      response.content_type = "text/event-stream";
      response.stream = [this](const TestWriter& write) {
        for (const std::string& event : events_) write(event);
      };
      return response;
    }
    response.body = DumpJson(wholes_.at(next_++));
    return response;
  }

  std::optional<RemoteError> Run(bool is_stream) {
    ExchangeRequest request;
    request.body = Json{
        {"model", "m"},
        {"messages", Json::array({{{"role", "user"}, {"content", "hello"}}})},
        {"tools", entries_},
        {"stream", is_stream}};
    request.is_stream = is_stream;
    request.tools = tools_;
    request.entries = &entries_;
    request.must_call = must_call_;
    request.deadline =
        std::chrono::steady_clock::now() + std::chrono::seconds(60);
    Exchange exchange(client_.get(), request);
    auto error = exchange.Run(
        [this](Json&& chunk) {
          chunks_.push_back(std::move(chunk));
          return true;
        },
        &whole_);
    report_ = exchange.report();
    return error;
  }

  std::optional<size_t> must_call_;
  std::mutex mutex_;
  std::vector<Json> wholes_;
  std::vector<std::string> events_;
  std::vector<Json> requests_;
  size_t next_ = 0;
  Json entries_;
  std::vector<schema::ToolSchema> tools_;
  net::HttpTestServer server_{
      [this](const TestRequest& request) { return Answer(request); }};
  std::unique_ptr<BackendPool> pool_;
  std::unique_ptr<ChatClient> client_;
  std::vector<Json> chunks_;
  Json whole_;
  ExchangeReport report_;
};

TEST_F(ExchangeTest, LeavesAGoodCallAsItCame) {
  wholes_ = {CallAnswer(R"({ "city" : "Paris" })")};
  ASSERT_FALSE(Run(false).has_value());
  EXPECT_EQ(whole_, wholes_[0]);
  ASSERT_THAT(report_.calls, SizeIs(1));
  EXPECT_TRUE(report_.calls[0].is_valid);
  EXPECT_EQ(report_.repair_rounds, 0);
}

TEST_F(ExchangeTest, RepairsAWrongCallOnce) {
  wholes_ = {CallAnswer(R"({"city": 3})"), CallAnswer(R"({"city": "Paris"})")};
  ASSERT_FALSE(Run(false).has_value());
  ASSERT_THAT(requests_, SizeIs(2));
  EXPECT_THAT(DumpJson(requests_[1]["messages"].back()), HasSubstr("city"));
  EXPECT_EQ(requests_[1]["tool_choice"], "required");
  const auto calls = AnswerParts::OfWhole(whole_).calls();
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_EQ(calls[0].arguments, R"({"city": "Paris"})");
  EXPECT_TRUE(report_.calls[0].is_valid);
  EXPECT_EQ(report_.repair_rounds, 1);
  EXPECT_EQ(report_.attempts, 2);
  EXPECT_EQ(whole_["usage"]["total_tokens"], 30);
}

TEST_F(ExchangeTest, GivesAWrongCallOutWhenRepairFails) {
  wholes_ = {CallAnswer(R"({"city": 3})"), CallAnswer(R"({"city": 4})")};
  ASSERT_FALSE(Run(false).has_value());
  EXPECT_EQ(AnswerParts::OfWhole(whole_).calls()[0].arguments,
            R"({"city": 3})");
  EXPECT_FALSE(report_.calls[0].is_valid);
  EXPECT_THAT(report_.calls[0].problem, HasSubstr("city"));
  EXPECT_THAT(requests_, SizeIs(2));
}

TEST_F(ExchangeTest, ToleratesARepairWithoutACall) {
  Json words = CallAnswer("{}");
  words["choices"][0]["message"].erase("tool_calls");
  wholes_ = {CallAnswer("nonsense"), words};
  ASSERT_FALSE(Run(false).has_value());
  EXPECT_THAT(report_.repair_error, HasSubstr("found 0"));
  EXPECT_FALSE(report_.calls[0].is_valid);
}

TEST_F(ExchangeTest, RepairsTheNameOfATool) {
  wholes_ = {CallAnswer(R"({"city": "Rome"})", "weather"),
             CallAnswer(R"({"city": "Rome"})")};
  ASSERT_FALSE(Run(false).has_value());
  EXPECT_EQ(requests_[1]["tools"], entries_);
  EXPECT_EQ(AnswerParts::OfWhole(whole_).calls()[0].name, "get_weather");
}

TEST_F(ExchangeTest, PassesAStreamOfWordsUnchanged) {
  const std::vector<Json> sent = {
      Delta(R"({"role": "assistant", "content": ""})"),
      Delta(R"({"content": "Hi", "extra": [1.5]})"), Delta("{}", "stop")};
  for (const Json& chunk : sent) events_.push_back(Event(chunk));
  events_.emplace_back("data: [DONE]\n\n");
  ASSERT_FALSE(Run(true).has_value());
  EXPECT_EQ(chunks_, sent);
}

TEST_F(ExchangeTest, PassesAGoodCallOfAStreamUnchanged) {
  const std::vector<Json> sent = {
      Delta(R"({"role": "assistant", "content": "I look."})"),
      Delta(R"({"tool_calls": [{"index": 0, "id": "c", "type": "function",
          "function": {"name": "get_weather", "arguments": ""}}]})"),
      Delta(R"({"tool_calls": [{"index": 0,
          "function": {"arguments": "{\"city\": \"Paris\"}"}}]})"),
      Delta("{}", "tool_calls")};
  for (const Json& chunk : sent) events_.push_back(Event(chunk));
  events_.emplace_back("data: [DONE]\n\n");
  ASSERT_FALSE(Run(true).has_value());
  EXPECT_EQ(chunks_, sent);
  EXPECT_TRUE(report_.calls[0].is_valid);
}

TEST_F(ExchangeTest, RepairsACallOfAStream) {
  Json usage = Delta("{}");
  usage["choices"] = Json::array();
  usage["usage"] = {{"total_tokens", 100}};
  events_ = {Event(Delta(R"({"role": "assistant", "content": "I look."})")),
             Event(Delta(R"({"tool_calls": [{"index": 0, "id": "c",
          "function": {"name": "get_weather", "arguments": "{}"}}]})")),
             Event(Delta("{}", "tool_calls")), Event(usage),
             "data: [DONE]\n\n"};
  wholes_ = {CallAnswer(R"({"city": "Paris"})")};
  ASSERT_FALSE(Run(true).has_value());
  ASSERT_THAT(chunks_, SizeIs(4));
  AnswerParts parts;
  for (const Json& chunk : chunks_) parts.AddChunk(chunk);
  EXPECT_EQ(parts.content(), "I look.");
  ASSERT_THAT(parts.calls(), SizeIs(1));
  EXPECT_EQ(parts.calls()[0].arguments, R"({"city": "Paris"})");
  EXPECT_EQ(chunks_[2]["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_EQ(chunks_[3]["usage"]["total_tokens"], 115);
  EXPECT_EQ(chunks_[3]["created"], 7);
}

TEST_F(ExchangeTest, GivesNoHalfCallOut) {
  events_ = {Event(Delta(R"({"role": "assistant", "content": "I look."})")),
             Event(Delta(R"({"tool_calls": [{"index": 0, "id": "c",
          "function": {"name": "get_weather", "arguments": "{\"ci"}}]})"))};
  const auto error = Run(true);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code, "backend_bad_answer");
  EXPECT_THAT(chunks_, SizeIs(1));
  EXPECT_THAT(requests_, SizeIs(1));
}

Json Words(const char* text) {
  return Json{
      {"choices",
       Json::array({{{"index", 0},
                     {"message", {{"role", "assistant"}, {"content", text}}},
                     {"finish_reason", "stop"}}})}};
}

TEST_F(ExchangeTest, AsksForTheArgumentsWhenAForcedCallComesAsWords) {
  must_call_ = 0;
  wholes_ = {Words("It is sunny."), Words(R"({"city": "Paris"})")};
  ASSERT_FALSE(Run(false).has_value());
  const auto calls = AnswerParts::OfWhole(whole_).calls();
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_EQ(calls[0].name, "get_weather");
  EXPECT_EQ(calls[0].arguments, R"({"city": "Paris"})");
  EXPECT_THAT(calls[0].id, HasSubstr("call_"));
  EXPECT_EQ(whole_["choices"][0]["finish_reason"], "tool_calls");
  EXPECT_TRUE(whole_["choices"][0]["message"]["content"].is_null());
  EXPECT_TRUE(report_.calls[0].is_valid);
  ASSERT_THAT(requests_, SizeIs(2));
  EXPECT_FALSE(requests_[1].contains("tools"));
  EXPECT_EQ(requests_[1]["response_format"]["json_schema"]["schema"],
            tools_[0].parameters);
  // In the user's own turn.
  EXPECT_THAT(requests_[1]["messages"], SizeIs(1));
}

TEST_F(ExchangeTest, ForcedWordsOfAStreamAreHeldBackAndReplaced) {
  must_call_ = 0;
  events_ = {Event(Delta(R"({"role": "assistant", "content": "Sunny."})")),
             Event(Delta("{}", "stop")), "data: [DONE]\n\n"};
  wholes_ = {Words(R"({"city": "Paris"})")};
  ASSERT_FALSE(Run(true).has_value());
  AnswerParts parts;
  for (const Json& chunk : chunks_) parts.AddChunk(chunk);
  EXPECT_EQ(parts.content(), "");
  ASSERT_THAT(parts.calls(), SizeIs(1));
  EXPECT_EQ(parts.calls()[0].arguments, R"({"city": "Paris"})");
}

TEST_F(ExchangeTest, KeepsTheWordsWhenTheArgumentsDontComeEither) {
  must_call_ = 0;
  wholes_ = {Words("It is sunny."), Words("Really.")};
  ASSERT_FALSE(Run(false).has_value());
  EXPECT_EQ(whole_, wholes_[0]);
  EXPECT_THAT(report_.repair_error, HasSubstr("in words"));
  EXPECT_TRUE(report_.calls.empty());
}

}  // namespace
}  // namespace nexus::remote
