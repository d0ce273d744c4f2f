#include "nexus/serve/openai_chat.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "nexus/net/sse.h"

namespace nexus::serve {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Json Minimal() {
  return {{"model", "m"},
          {"messages", Json::array({{{"role", "user"}, {"content", "hi"}}})}};
}

Json WeatherTool() {
  return {{"type", "function"},
          {"function",
           {{"name", "get_weather"},
            {"description", "Weather of a city"},
            {"parameters",
             {{"type", "object"},
              {"properties", {{"city", {{"type", "string"}}}}}}}}}};
}

ChatRequest Parsed(const Json& body) {
  ChatRequest request;
  const auto error = ParseChatRequest(body, &request);
  EXPECT_FALSE(error.has_value()) << error.value_or(ApiError{}).message;
  return request;
}

// The field that is complained about; empty: none is.
std::string WrongField(const Json& body) {
  ChatRequest request;
  const auto error = ParseChatRequest(body, &request);
  if (!error.has_value()) return "";
  EXPECT_EQ(error->status, 400);
  EXPECT_EQ(error->type, "invalid_request_error");
  EXPECT_FALSE(error->message.empty());
  return error->param.empty() ? "(no field)" : error->param;
}

TEST(ChatRequestTest, HasDefaults) {
  const ChatRequest request = Parsed(Minimal());
  EXPECT_EQ(request.model, "m");
  ASSERT_EQ(request.messages.size(), 1U);
  EXPECT_EQ(request.messages[0].role, "user");
  EXPECT_EQ(request.messages[0].content, "hi");
  EXPECT_EQ(request.tool_choice, ToolChoice::kAuto);
  EXPECT_FALSE(request.stream);
  EXPECT_FALSE(request.max_tokens.has_value());
  EXPECT_EQ(request.temperature, 0.0F);
  EXPECT_FALSE(request.wants_report);
}

TEST(ChatRequestTest, ReadsEveryField) {
  Json body = Minimal();
  body.update(Json{
      {"tools", Json::array({WeatherTool()})},
      {"tool_choice",
       {{"type", "function"}, {"function", {{"name", "get_weather"}}}}},
      {"stream", true},
      {"stream_options", {{"include_usage", true}}},
      {"temperature", 0.5},
      {"top_p", 0.9},
      {"seed", 7},
      {"max_completion_tokens", 12},
      {"stop", Json::array({"a", "", "b"})},
      {"response_format",
       {{"type", "json_schema"},
        {"json_schema", {{"name", "x"}, {"schema", {{"type", "object"}}}}}}},
      {"n", 1},
      {"logprobs", true},
      {"top_logprobs", 3},
      {"frequency_penalty", 0.0},
      {"user", "somebody"},
      {"nexus", {{"tools", "pin"}}}});
  const ChatRequest request = Parsed(body);
  ASSERT_EQ(request.tools.size(), 1U);
  EXPECT_EQ(request.tool_choice, ToolChoice::kNamed);
  EXPECT_EQ(request.named_tool, "get_weather");
  EXPECT_TRUE(request.stream);
  EXPECT_TRUE(request.include_usage);
  EXPECT_EQ(request.temperature, 0.5F);
  EXPECT_EQ(request.top_p, 0.9F);
  EXPECT_EQ(request.seed, 7U);
  EXPECT_EQ(request.max_tokens, 12);
  EXPECT_THAT(request.stop, ElementsAre("a", "b"));
  EXPECT_EQ(request.format, ResponseFormat::kJsonSchema);
  EXPECT_EQ(request.format_schema, (Json{{"type", "object"}}));
  EXPECT_EQ(request.top_logprobs, 3);
  EXPECT_TRUE(request.wants_report);
  EXPECT_EQ(request.tools_mode, ToolsMode::kPin);
}

TEST(ChatRequestTest, ReadsAConversationWithACallAndItsResult) {
  Json body = Minimal();
  body["messages"] = Json::array(
      {{{"role", "developer"}, {"content", "Be brief."}},
       {{"role", "user"},
        {"content", Json::array({{{"type", "text"}, {"text", "Wea"}},
                                 {{"type", "text"}, {"text", "ther?"}}})}},
       {{"role", "assistant"},
        {"content", nullptr},
        {"tool_calls",
         Json::array({{{"id", "c1"},
                       {"type", "function"},
                       {"function",
                        {{"name", "get_weather"},
                         {"arguments", "{\"city\": \"Paris\"}"}}}}})}},
       {{"role", "tool"}, {"tool_call_id", "c1"}, {"content", "22 degrees"}}});
  const ChatRequest request = Parsed(body);
  ASSERT_EQ(request.messages.size(), 4U);
  EXPECT_EQ(request.messages[0].role, "system");
  EXPECT_EQ(request.messages[1].content, "Weather?");
  EXPECT_EQ(request.messages[2].tool_calls.at(0).name, "get_weather");
  EXPECT_EQ(request.messages[3].tool_name, "get_weather");
}

TEST(ChatRequestTest, NamesTheWrongField) {
  struct Case {
    const char* pointer;
    Json value;
    const char* field;
  };
  const Json image =
      Json::array({{{"type", "image_url"}, {"image_url", {{"url", "data:"}}}}});
  const Case cases[] = {
      {"/model", 3, "model"},
      {"/model", "", "model"},
      {"/messages", Json::array(), "messages"},
      {"/messages", "hi", "messages"},
      {"/messages/0", "hi", "messages[0]"},
      {"/messages/0/role", 1, "messages[0].role"},
      {"/messages/0/role", "robot", "messages[0].role"},
      {"/messages/0/content", 1, "messages[0].content"},
      {"/messages/0/content", nullptr, "messages[0].content"},
      {"/messages/0/content", image, "messages[0].content[0].type"},
      {"/messages/0/role", "tool", "messages[0].tool_call_id"},
      {"/tools", Json::object(), "tools"},
      {"/tools", Json::array({1}), "tools[0]"},
      {"/tools", Json::array({{{"type", "function"}}}), "tools[0]"},
      {"/tool_choice", 1, "tool_choice"},
      {"/tool_choice", "always", "tool_choice"},
      {"/tool_choice", "required", "tool_choice"},
      {"/tool_choice",
       {{"type", "function"}, {"function", {{"name", "nothing"}}}},
       "tool_choice.function.name"},
      {"/stream", "yes", "stream"},
      {"/parallel_tool_calls", "no", "parallel_tool_calls"},
      {"/stream_options", true, "stream_options"},
      {"/stream_options",
       {{"include_usage", 1}},
       "stream_options.include_usage"},
      {"/temperature", "hot", "temperature"},
      {"/temperature", 2.5, "temperature"},
      {"/temperature", -1, "temperature"},
      {"/top_p", 1.5, "top_p"},
      {"/seed", 1.5, "seed"},
      {"/max_tokens", 0, "max_tokens"},
      {"/max_tokens", 1e30, "max_tokens"},
      {"/max_completion_tokens", "9", "max_completion_tokens"},
      {"/stop", 1, "stop"},
      {"/stop", Json::array({1}), "stop"},
      {"/n", 2, "n"},
      {"/logprobs", 1, "logprobs"},
      {"/top_logprobs", 2, "top_logprobs"},  // without logprobs
      {"/top_logprobs", 21, "top_logprobs"},
      {"/top_logprobs", -1, "top_logprobs"},
      {"/top_logprobs", "2", "top_logprobs"},
      {"/presence_penalty", 0.5, "presence_penalty"},
      {"/logit_bias", {{"5", 1}}, "logit_bias"},
      {"/functions", Json::array({1}), "functions"},
      {"/response_format", "json", "response_format"},
      {"/response_format", {{"type", "xml"}}, "response_format.type"},
      {"/response_format",
       {{"type", "json_schema"}},
       "response_format.json_schema.schema"},
      {"/nexus", "yes", "nexus"},
      {"/nexus", {{"tools", "all"}}, "nexus.tools"},
  };
  for (const Case& one : cases) {
    Json body = Minimal();
    body[Json::json_pointer(one.pointer)] = one.value;
    EXPECT_EQ(WrongField(body), one.field)
        << one.pointer << " = " << one.value.dump();
  }
}

TEST(ChatRequestTest, LogprobsAreGivenToThoseWhoAsk) {
  Json body = Minimal();
  EXPECT_EQ(Parsed(body).top_logprobs, -1);
  body["top_logprobs"] = 0;
  EXPECT_EQ(Parsed(body).top_logprobs, -1);
  body["logprobs"] = true;
  EXPECT_EQ(Parsed(body).top_logprobs, 0);
  body["top_logprobs"] = 20;
  EXPECT_EQ(Parsed(body).top_logprobs, 20);
}

// Every place in `json`, itself left out.
void CollectPlaces(const Json& json, const Json::json_pointer& at,
                   std::vector<Json::json_pointer>* places) {
  const auto visit = [&](const Json::json_pointer& place, const Json& value) {
    places->push_back(place);
    CollectPlaces(value, place, places);
  };
  if (json.is_object()) {
    for (const auto& [key, value] : json.items()) visit(at / key, value);
  } else if (json.is_array()) {
    for (size_t i = 0; i < json.size(); ++i) visit(at / i, json[i]);
  }
}

TEST(ChatRequestTest, AnyValueInAnyPlaceIsReadOrNamed) {
  Json whole = Minimal();
  whole["messages"].push_back(
      {{"role", "assistant"},
       {"content", Json::array({{{"type", "text"}, {"text", "x"}}})},
       {"tool_calls",
        Json::array({{{"id", "c"},
                      {"function", {{"name", "f"}, {"arguments", "{}"}}}}})}});
  whole["messages"].push_back(
      {{"role", "tool"}, {"tool_call_id", "c"}, {"content", "y"}});
  whole.update(
      Json{{"tools", Json::array({WeatherTool()})},
           {"tool_choice",
            {{"type", "function"}, {"function", {{"name", "get_weather"}}}}},
           {"stream", true},
           {"stream_options", {{"include_usage", true}}},
           {"temperature", 0.5},
           {"top_p", 0.9},
           {"seed", 7},
           {"max_tokens", 12},
           {"stop", Json::array({"a"})},
           {"response_format",
            {{"type", "json_schema"},
             {"json_schema", {{"schema", {{"type", "object"}}}}}}},
           {"nexus", {{"tools", "pin"}}}});
  ASSERT_EQ(WrongField(whole), "");
  std::vector<Json::json_pointer> places;
  CollectPlaces(whole, Json::json_pointer(), &places);
  ASSERT_GT(places.size(), 40U);
  const Json values[] = {nullptr,
                         true,
                         -1,
                         1e308,
                         uint64_t{18446744073709551615U},
                         "",
                         "\xff",
                         Json::array(),
                         Json::array({Json::array()}),
                         Json::object(),
                         {{"", nullptr}}};
  int named = 0;
  for (const auto& place : places) {
    for (const Json& value : values) {
      Json body = whole;
      body[place] = value;
      ChatRequest request;
      const auto error = ParseChatRequest(body, &request);
      if (!error.has_value()) continue;
      ++named;
      EXPECT_EQ(error->status, 400);
      EXPECT_FALSE(error->param.empty()) << place.to_string();
    }
  }
  EXPECT_GT(named, 200);
}

TEST(ChatRequestTest, RefusesWhatIsNoObject) {
  EXPECT_EQ(WrongField(Json::array()), "(no field)");
  EXPECT_EQ(WrongField(Json("text")), "(no field)");
  EXPECT_EQ(WrongField(Json(nullptr)), "(no field)");
}

TEST(ChatRequestTest, RefusesArgumentsThatAreNoObject) {
  Json body = Minimal();
  body["messages"].push_back(
      {{"role", "assistant"},
       {"tool_calls",
        Json::array(
            {{{"id", "c"},
              {"function", {{"name", "f"}, {"arguments", "not json"}}}}})}});
  EXPECT_EQ(WrongField(body), "messages[1].tool_calls[0].function.arguments");
}

TEST(ChatCompletionTest, SaysWhatWasSaid) {
  const Json json = ChatCompletionJson(
      {.id = "chatcmpl-1", .created = 5, .model = "m"},
      {.content = "Hello",
       .finish_reason = "stop",
       .usage = {
           .prompt_tokens = 10, .completion_tokens = 2, .cached_tokens = 7}});
  EXPECT_EQ(json["object"], "chat.completion");
  EXPECT_EQ(json["choices"][0]["message"]["content"], "Hello");
  EXPECT_FALSE(json["choices"][0]["message"].contains("tool_calls"));
  EXPECT_EQ(json["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(json["usage"]["total_tokens"], 12);
  EXPECT_EQ(json["usage"]["prompt_tokens_details"]["cached_tokens"], 7);
  EXPECT_FALSE(json.contains("nexus"));
}

TEST(ChatCompletionTest, SaysWhatIsCalled) {
  const Json json = ChatCompletionJson(
      {}, {.tool_calls = {{.id = "c1", .name = "f", .arguments = "{}"}},
           .finish_reason = "tool_calls",
           .report = {{"tier", "splice"}}});
  const Json& message = json["choices"][0]["message"];
  EXPECT_TRUE(message["content"].is_null());
  EXPECT_EQ(message["tool_calls"][0]["type"], "function");
  EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], "{}");
  EXPECT_EQ(json["nexus"]["tier"], "splice");
}

// The data of each event.
std::vector<std::string> Events(const std::string& bytes) {
  std::vector<std::string> events;
  net::SseParser parser([&](const net::SseEvent& event) {
    events.push_back(event.data);
    return true;
  });
  EXPECT_TRUE(parser.Feed(bytes).ok());
  return events;
}

TEST(ChatChunksTest, StreamsText) {
  ChatChunks chunks({.id = "chatcmpl-1", .created = 5, .model = "m"}, false);
  std::string bytes = chunks.Text("Hel", nullptr);
  bytes += chunks.Text("lo", nullptr);
  bytes += chunks.Finish({.content = "Hello", .finish_reason = "stop"});
  const auto events = Events(bytes);
  ASSERT_EQ(events.size(), 4U);
  const Json first = Json::parse(events[0]);
  EXPECT_EQ(first["object"], "chat.completion.chunk");
  EXPECT_EQ(first["choices"][0]["delta"],
            (Json{{"role", "assistant"}, {"content", "Hel"}}));
  EXPECT_TRUE(first["choices"][0]["finish_reason"].is_null());
  EXPECT_FALSE(first.contains("usage"));
  EXPECT_EQ(Json::parse(events[1])["choices"][0]["delta"],
            (Json{{"content", "lo"}}));
  EXPECT_EQ(Json::parse(events[2])["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(events[3], "[DONE]");
}

TEST(ChatChunksTest, LogprobsGoWithTheirText) {
  const Json rows = Json::array({{{"token", "Hel"}, {"logprob", -0.5}}});
  ChatChunks chunks({}, false);
  std::string bytes = chunks.Text("Hel", rows);
  bytes += chunks.Finish({.content = "Hel", .finish_reason = "stop"});
  const auto events = Events(bytes);
  EXPECT_EQ(Json::parse(events[0])["choices"][0]["logprobs"]["content"], rows);
  EXPECT_TRUE(Json::parse(events[1])["choices"][0]["logprobs"].is_null());
  const Json whole =
      ChatCompletionJson({}, {.content = "Hel", .logprobs = rows});
  EXPECT_EQ(whole["choices"][0]["logprobs"]["content"], rows);
}

TEST(ChatChunksTest, StreamsACallInFragments) {
  ChatChunks chunks({}, false);
  std::string bytes = chunks.CallBegin({.id = "c1", .name = "f"});
  bytes += chunks.CallArguments("{\"a\"");
  bytes += chunks.CallArguments(": 1}");
  bytes += chunks.Finish({.finish_reason = "tool_calls"});
  const auto events = Events(bytes);
  ASSERT_EQ(events.size(), 5U);
  std::string arguments;
  for (size_t i = 0; i < 3; ++i) {
    const Json delta = Json::parse(events[i])["choices"][0]["delta"];
    const Json& call = delta["tool_calls"][0];
    EXPECT_EQ(call["index"], 0);
    EXPECT_EQ(call.contains("id"), i == 0);
    arguments += call["function"]["arguments"].get<std::string>();
  }
  EXPECT_EQ(arguments, "{\"a\": 1}");
}

TEST(ChatChunksTest, SendsUsageApartWhereItWasAskedFor) {
  ChatChunks chunks({}, true);
  std::string bytes = chunks.Text("a", nullptr);
  bytes +=
      chunks.Finish({.finish_reason = "stop", .usage = {.prompt_tokens = 3}});
  const auto events = Events(bytes);
  ASSERT_EQ(events.size(), 4U);
  EXPECT_TRUE(Json::parse(events[0])["usage"].is_null());
  const Json usage = Json::parse(events[2]);
  EXPECT_TRUE(usage["choices"].empty());
  EXPECT_EQ(usage["usage"]["prompt_tokens"], 3);
}

TEST(ChatChunksTest, AnEmptyAnswerIsAStreamToo) {
  ChatChunks chunks({}, false);
  const auto events = Events(chunks.Finish({.finish_reason = "stop"}));
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(Json::parse(events[0])["choices"][0]["delta"]["role"], "assistant");
}

TEST(ApiErrorTest, HasOpenAisShape) {
  const Json json = ToJson(BadField("messages[0].role", "is missing"));
  EXPECT_EQ(json["error"]["type"], "invalid_request_error");
  EXPECT_EQ(json["error"]["param"], "messages[0].role");
  EXPECT_TRUE(json["error"]["code"].is_null());
  EXPECT_THAT(json["error"]["message"].get<std::string>(),
              HasSubstr("is missing"));
  EXPECT_EQ(FromStatus(ResourceExhaustedError("x")).status, 429);
  EXPECT_EQ(FromStatus(InternalError("x")).type, "server_error");
}

}  // namespace
}  // namespace nexus::serve
