#include "nexus/serve/responses_api.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "nexus/net/sse.h"

namespace nexus::serve {
namespace {

using testing::ElementsAre;

Json Minimal() { return {{"model", "m"}, {"input", "hi"}}; }

Json WeatherTool() {
  return {
      {"type", "function"},
      {"name", "get_weather"},
      {"description", "Weather of a city"},
      {"parameters",
       {{"type", "object"}, {"properties", {{"city", {{"type", "string"}}}}}}},
      {"strict", true}};
}

// An agent's second turn, with every kind of item that is taken.
Json Conversation() {
  Json body = Minimal();
  body["instructions"] = "Be brief.";
  body["input"] = Json::array(
      {{{"role", "developer"}, {"content", "In French."}},
       {{"type", "message"},
        {"role", "user"},
        {"content",
         Json::array({{{"type", "input_text"}, {"text", "Wea"}},
                      {{"type", "input_text"}, {"text", "ther?"}}})}},
       {{"type", "reasoning"}, {"id", "rs_1"}, {"summary", Json::array()}},
       {{"type", "message"},
        {"role", "assistant"},
        {"content",
         Json::array({{{"type", "output_text"}, {"text", "Let me see."}}})}},
       {{"type", "function_call"},
        {"id", "fc_1"},
        {"call_id", "c1"},
        {"name", "get_weather"},
        {"arguments", "{\"city\": \"Paris\"}"}},
       {{"type", "function_call"},
        {"call_id", "c2"},
        {"name", "get_weather"},
        {"arguments", "{}"}},
       {{"type", "function_call_output"},
        {"call_id", "c1"},
        {"output", "22 degrees"}},
       {{"type", "function_call_output"},
        {"call_id", "c2"},
        {"output",
         Json::array({{{"type", "input_text"}, {"text", "no city"}}})}}});
  return body;
}

ChatRequest Parsed(const Json& body, Json* echo = nullptr) {
  ChatRequest request;
  Json ignored;
  const auto error =
      ParseResponsesRequest(body, &request, echo != nullptr ? echo : &ignored);
  EXPECT_FALSE(error.has_value()) << error.value_or(ApiError{}).message;
  return request;
}

// The field that is complained about; empty: none is.
std::string WrongField(const Json& body) {
  ChatRequest request;
  Json echo;
  const auto error = ParseResponsesRequest(body, &request, &echo);
  if (!error.has_value()) return "";
  EXPECT_EQ(error->status, 400);
  EXPECT_FALSE(error->message.empty());
  return error->param.empty() ? "(no field)" : error->param;
}

TEST(ResponsesRequestTest, TextIsAUsersTurn) {
  const ChatRequest request = Parsed(Minimal());
  EXPECT_EQ(request.model, "m");
  ASSERT_EQ(request.messages.size(), 1U);
  EXPECT_EQ(request.messages[0].role, "user");
  EXPECT_EQ(request.messages[0].content, "hi");
  EXPECT_FALSE(request.stream);
  EXPECT_FALSE(request.max_tokens.has_value());
}

TEST(ResponsesRequestTest, ItemsBecomeMessages) {
  const ChatRequest request = Parsed(Conversation());
  ASSERT_EQ(request.messages.size(), 5U);
  EXPECT_EQ(request.messages[0].role, "system");
  EXPECT_EQ(request.messages[0].content, "Be brief.\n\nIn French.");
  EXPECT_EQ(request.messages[1].content, "Weather?");
  // Words and the calls behind them are one turn.
  EXPECT_EQ(request.messages[2].role, "assistant");
  EXPECT_EQ(request.messages[2].content, "Let me see.");
  ASSERT_EQ(request.messages[2].tool_calls.size(), 2U);
  EXPECT_EQ(request.messages[2].tool_calls[1].id, "c2");
  EXPECT_EQ(request.messages[3].role, "tool");
  EXPECT_EQ(request.messages[3].tool_name, "get_weather");
  EXPECT_EQ(request.messages[3].content, "22 degrees");
  EXPECT_EQ(request.messages[4].content, "no city");
}

TEST(ResponsesRequestTest, ReadsEveryField) {
  Json body = Minimal();
  body.update(
      Json{{"tools", Json::array({WeatherTool()})},
           {"tool_choice", {{"type", "function"}, {"name", "get_weather"}}},
           {"stream", true},
           {"temperature", 0.5},
           {"top_p", 0.9},
           {"seed", 7},
           {"max_output_tokens", 12},
           {"store", false},
           {"include", Json::array({"reasoning.encrypted_content"})},
           {"text",
            {{"format",
              {{"type", "json_schema"},
               {"name", "x"},
               {"schema", {{"type", "object"}}}}}}},
           {"nexus", {{"tools", "pin"}}}});
  Json echo;
  const ChatRequest request = Parsed(body, &echo);
  ASSERT_EQ(request.tools.size(), 1U);
  EXPECT_EQ(request.tools[0].name, "get_weather");
  EXPECT_EQ(request.tool_choice, ToolChoice::kNamed);
  EXPECT_EQ(request.named_tool, "get_weather");
  EXPECT_TRUE(request.stream);
  EXPECT_EQ(request.temperature, 0.5F);
  EXPECT_EQ(request.top_p, 0.9F);
  EXPECT_EQ(request.seed, 7U);
  EXPECT_EQ(request.max_tokens, 12);
  EXPECT_EQ(request.format, ResponseFormat::kJsonSchema);
  EXPECT_EQ(request.tools_mode, ToolsMode::kPin);
  EXPECT_EQ(echo["tools"], body["tools"]);
  EXPECT_EQ(echo["text"], body["text"]);
  EXPECT_EQ(echo["max_output_tokens"], 12);
  EXPECT_EQ(echo["store"], false);
}

TEST(ResponsesRequestTest, AllowedToolsAreTheOnlyOnes) {
  Json body = Minimal();
  Json other = WeatherTool();
  other["name"] = "send_email";
  body["tools"] = Json::array({WeatherTool(), other});
  body["tool_choice"] = {
      {"type", "allowed_tools"},
      {"mode", "required"},
      {"tools", Json::array({{{"type", "function"}, {"name", "send_email"}}})}};
  const ChatRequest request = Parsed(body);
  ASSERT_EQ(request.tools.size(), 1U);
  EXPECT_EQ(request.tools[0].name, "send_email");
  EXPECT_EQ(request.tool_choice, ToolChoice::kRequired);
}

// As Codex sends the tools of its MCP servers, beside those of OpenAI's own.
Json NamespacedBody() {
  Json body = Minimal();
  body["tools"] =
      Json::array({WeatherTool(),
                   {{"type", "namespace"},
                    {"name", "mcp__docs"},
                    {"description", "The documentation."},
                    {"tools", Json::array({WeatherTool()})}},
                   {{"type", "web_search"}, {"external_web_access", true}},
                   {{"type", "custom"}, {"name", "apply_patch"}}});
  return body;
}

TEST(ResponsesRequestTest, AFunctionOfANamespaceHasANameOfItsOwn) {
  const ChatRequest request = Parsed(NamespacedBody());
  ASSERT_EQ(request.tools.size(), 2U);
  EXPECT_EQ(request.tools[0].name, "get_weather");
  EXPECT_EQ(request.tools[1].name, "mcp__docs__get_weather");
  EXPECT_THAT(request.left_out_tools, ElementsAre("web_search", "custom"));
  ASSERT_EQ(request.namespaced.size(), 1U);
  EXPECT_EQ(request.namespaced.at("mcp__docs__get_weather").space, "mcp__docs");

  Json body = NamespacedBody();
  body["tools"][1]["name"] = "docs__";
  EXPECT_EQ(Parsed(body).tools[1].name, "docs__get_weather");
}

TEST(ResponsesRequestTest, NamespacesAreNamedInChoicesAndInTheConversation) {
  Json body = NamespacedBody();
  body["tool_choice"] = {{"type", "function"},
                         {"name", "get_weather"},
                         {"namespace", "mcp__docs"}};
  EXPECT_EQ(Parsed(body).named_tool, "mcp__docs__get_weather");
  body["tool_choice"] = {
      {"type", "allowed_tools"},
      {"tools", Json::array({{{"type", "function"},
                              {"name", "get_weather"},
                              {"namespace", "mcp__docs"}}})}};
  ASSERT_EQ(Parsed(body).tools.size(), 1U);
  EXPECT_EQ(Parsed(body).tools[0].name, "mcp__docs__get_weather");
  body["tool_choice"] = "auto";
  body["input"] = Json::array({{{"role", "user"}, {"content", "And in Rome?"}},
                               {{"type", "function_call"},
                                {"call_id", "c1"},
                                {"namespace", "mcp__docs"},
                                {"name", "get_weather"},
                                {"arguments", "{}"}},
                               {{"type", "function_call_output"},
                                {"call_id", "c1"},
                                {"output", "rain"}}});
  const ChatRequest request = Parsed(body);
  ASSERT_EQ(request.messages.size(), 3U);
  EXPECT_EQ(request.messages[1].tool_calls[0].name, "mcp__docs__get_weather");
  EXPECT_EQ(request.messages[2].tool_name, "mcp__docs__get_weather");
}

TEST(ResponsesRequestTest, ToolsInNamespacesAreCountedWithTheOthers) {
  Json body = Minimal();
  body["tools"] = Json::array();
  for (const char* space : {"a", "b"}) {
    Json tools = Json::array();
    for (size_t i = 0; i < kMaxTools / 2 + 1; ++i) {
      Json tool = WeatherTool();
      tool["name"] = "tool_" + std::to_string(i);
      tools.push_back(std::move(tool));
    }
    body["tools"].push_back(
        {{"type", "namespace"}, {"name", space}, {"tools", std::move(tools)}});
  }
  EXPECT_THAT(WrongField(body), testing::StartsWith("tools[1].tools["));
}

TEST(ResponsesRequestTest, LogprobsAreAskedForInTwoWays) {
  Json body = Minimal();
  EXPECT_EQ(Parsed(body).top_logprobs, -1);
  body["top_logprobs"] = 0;
  EXPECT_EQ(Parsed(body).top_logprobs, -1);
  body["include"] = Json::array({"message.output_text.logprobs"});
  EXPECT_EQ(Parsed(body).top_logprobs, 0);
  body["top_logprobs"] = 5;
  EXPECT_EQ(Parsed(body).top_logprobs, 5);
  body.erase("include");
  EXPECT_EQ(Parsed(body).top_logprobs, 5);
}

TEST(ResponsesRequestTest, NamesTheWrongField) {
  struct Case {
    const char* pointer;
    Json value;
    const char* field;
  };
  const Case cases[] = {
      {"/model", "", "model"},
      {"/input", nullptr, "input"},
      {"/input", 1, "input"},
      {"/input", Json::array(), "input"},
      {"/input/0", "hi", "input[0]"},
      {"/input/0/role", "tool", "input[0].role"},
      {"/input/0/content", nullptr, "input[0].content"},
      {"/input/1/content/0/type", "input_image", "input[1].content[0].type"},
      {"/input/1/type", "computer_call", "input[1].type"},
      {"/input/2", {{"type", "item_reference"}, {"id", "x"}}, "input[2]"},
      {"/input/4/call_id", "", "input[4].call_id"},
      {"/input/4/arguments", "no json", "input[4].arguments"},
      {"/input/4/name", "", "input[4].name"},
      {"/input/6/call_id", "c9", "input[6].call_id"},
      {"/input/6/output", nullptr, "input[6].output"},
      {"/instructions", 1, "instructions"},
      {"/tools", 1, "tools"},
      {"/tools", Json::array({{{"type", "functoin"}}}), "tools[0].type"},
      {"/tools", Json::array({1}), "tools[0]"},
      {"/tools", Json::array({{{"type", "namespace"}}}), "tools[0].name"},
      {"/tools",
       Json::array({{{"type", "namespace"}, {"name", "docs"}, {"tools", 1}}}),
       "tools[0].tools"},
      {"/tools",
       Json::array({{{"type", "namespace"},
                     {"name", "docs"},
                     {"tools", Json::array({{{"type", "namespace"},
                                             {"name", "more"}}})}}}),
       "tools[0].tools[0].type"},
      {"/tools", Json::array({{{"type", "function"}}}), "tools[0]"},
      {"/tool_choice", "always", "tool_choice"},
      {"/tool_choice", "required", "tool_choice"},
      {"/tool_choice", {{"type", "web_search"}}, "tool_choice.type"},
      {"/tool_choice",
       {{"type", "function"}, {"name", "nothing"}},
       "tool_choice.name"},
      {"/tool_choice",
       {{"type", "allowed_tools"}, {"tools", Json::array({1})}},
       "tool_choice.tools[0]"},
      {"/store", true, "store"},
      {"/previous_response_id", "resp_1", "previous_response_id"},
      {"/conversation", "conv_1", "conversation"},
      {"/background", true, "background"},
      {"/truncation", "auto", "truncation"},
      {"/max_output_tokens", 0, "max_output_tokens"},
      {"/text", "json", "text"},
      {"/text", {{"format", {{"type", "xml"}}}}, "text.format.type"},
      {"/text", {{"format", {{"type", "json_schema"}}}}, "text.format.schema"},
  };
  for (const Case& one : cases) {
    Json body = Conversation();
    body[Json::json_pointer(one.pointer)] = one.value;
    EXPECT_EQ(WrongField(body), one.field)
        << one.pointer << " = " << one.value.dump();
  }
}

TEST(ResponsesRequestTest, AnyValueInAnyPlaceIsReadOrNamed) {
  Json whole = Conversation();
  whole["tools"] = Json::array({WeatherTool()});
  whole["tool_choice"] = {{"type", "function"}, {"name", "get_weather"}};
  whole["text"] = {
      {"format", {{"type", "json_schema"}, {"schema", {{"type", "object"}}}}}};
  ASSERT_EQ(WrongField(whole), "");
  const Json values[] = {nullptr,
                         true,
                         -1,
                         1e308,
                         "",
                         "\xff",
                         Json::array(),
                         Json::object(),
                         Json::array({1})};
  int named = 0;
  const Json flat = whole.flatten();
  for (const auto& [pointer, leaf] : flat.items()) {
    // The leaf, and all that it lies in.
    Json::json_pointer place(pointer);
    while (!place.empty()) {
      for (const Json& value : values) {
        Json body = whole;
        body[place] = value;
        ChatRequest request;
        Json echo;
        const auto error = ParseResponsesRequest(body, &request, &echo);
        if (!error.has_value()) continue;
        ++named;
        EXPECT_EQ(error->status, 400);
        EXPECT_FALSE(error->param.empty()) << place.to_string();
      }
      place = place.parent_pointer();
    }
  }
  EXPECT_GT(named, 200);
}

std::vector<Json> Events(const std::string& bytes) {
  std::vector<Json> events;
  net::SseParser parser([&](const net::SseEvent& event) {
    events.push_back(Json::parse(event.data));
    EXPECT_EQ(event.type, events.back()["type"]);
    return true;
  });
  EXPECT_TRUE(parser.Feed(bytes).ok());
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i]["sequence_number"], i);
  }
  return events;
}

std::vector<std::string> Types(const std::vector<Json>& events) {
  std::vector<std::string> types;
  for (const Json& event : events) {
    types.push_back(event["type"].get<std::string>());
  }
  return types;
}

ChatResult Words() {
  return {.content = "Hello",
          .finish_reason = "stop",
          .usage = {
              .prompt_tokens = 10, .completion_tokens = 2, .cached_tokens = 7}};
}

TEST(ResponseEventsTest, SaysWhatWasSaid) {
  ResponseEvents events({.id = "resp_1", .created = 5, .model = "m"},
                        {{"store", false}});
  const Json json = events.Whole(Words());
  EXPECT_EQ(json["object"], "response");
  EXPECT_EQ(json["status"], "completed");
  EXPECT_EQ(json["store"], false);
  ASSERT_EQ(json["output"].size(), 1U);
  EXPECT_EQ(json["output"][0]["status"], "completed");
  EXPECT_EQ(json["output"][0]["content"][0]["text"], "Hello");
  EXPECT_EQ(json["usage"]["input_tokens_details"]["cached_tokens"], 7);
  EXPECT_EQ(json["usage"]["total_tokens"], 12);
}

TEST(ResponseEventsTest, SaysThatTheLimitWasReached) {
  ChatResult cut = Words();
  cut.finish_reason = "length";
  const Json json = ResponseEvents({}, Json::object()).Whole(cut);
  EXPECT_EQ(json["status"], "incomplete");
  EXPECT_EQ(json["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(json["output"][0]["status"], "incomplete");
}

TEST(ResponseEventsTest, StreamsText) {
  ResponseEvents out({.id = "resp_1", .created = 5, .model = "m"},
                     Json::object());
  std::string bytes = out.Text("Hel", nullptr);
  bytes += out.Text("lo", nullptr);
  bytes += out.Finish(Words());
  const auto events = Events(bytes);
  EXPECT_THAT(
      Types(events),
      ElementsAre("response.created", "response.in_progress",
                  "response.output_item.added", "response.content_part.added",
                  "response.output_text.delta", "response.output_text.delta",
                  "response.output_text.done", "response.content_part.done",
                  "response.output_item.done", "response.completed"));
  EXPECT_EQ(events[0]["response"]["status"], "in_progress");
  EXPECT_TRUE(events[0]["response"]["output"].empty());
  EXPECT_TRUE(events[2]["item"]["content"].empty());
  EXPECT_EQ(events[4]["item_id"], events[2]["item"]["id"]);
  EXPECT_EQ(events[4]["output_index"], 0);
  EXPECT_EQ(events[4]["content_index"], 0);
  EXPECT_EQ(events[6]["text"], "Hello");
  // What the end says is what the pieces said.
  EXPECT_EQ(events.back()["response"]["output"][0], events[8]["item"]);
  EXPECT_EQ(events.back()["response"]["usage"]["input_tokens"], 10);
}

TEST(ResponseEventsTest, LogprobsGoWithTheirText) {
  const Json rows = Json::array({{{"token", "Hel"}, {"logprob", -0.5}}});
  const Json more = Json::array({{{"token", "lo"}, {"logprob", -0.25}}});
  ResponseEvents out({}, Json::object());
  std::string bytes = out.Text("Hel", rows);
  bytes += out.Text("lo", more);
  ChatResult result = Words();
  result.logprobs = Json::array({rows[0], more[0]});
  bytes += out.Finish(result);
  const auto events = Events(bytes);
  EXPECT_EQ(events[4]["logprobs"], rows);
  EXPECT_EQ(events[6]["logprobs"], result.logprobs);
  const Json& part = events.back()["response"]["output"][0]["content"][0];
  EXPECT_EQ(part["logprobs"], result.logprobs);
  const Json whole = ResponseEvents({}, Json::object()).Whole(result);
  EXPECT_EQ(whole["output"][0]["content"][0], part);
}

TEST(ResponseEventsTest, StreamsWordsThenACall) {
  ResponseEvents out({}, Json::object());
  std::string bytes = out.Text("Let me see.", nullptr);
  bytes += out.CallBegin({.id = "c1", .name = "f"});
  bytes += out.CallArguments("{\"a\"");
  bytes += out.CallArguments(": 1}");
  bytes += out.Finish({.finish_reason = "tool_calls"});
  const auto events = Events(bytes);
  const Json& output = events.back()["response"]["output"];
  ASSERT_EQ(output.size(), 2U);
  EXPECT_EQ(output[0]["content"][0]["text"], "Let me see.");
  EXPECT_EQ(output[1]["call_id"], "c1");
  EXPECT_EQ(output[1]["arguments"], "{\"a\": 1}");
  const auto types = Types(events);
  EXPECT_EQ(std::count(types.begin(), types.end(),
                       "response.function_call_arguments.delta"),
            2);
  for (const Json& event : events) {
    if (event["type"] == "response.function_call_arguments.done") {
      EXPECT_EQ(event["output_index"], 1);
      EXPECT_EQ(event["item_id"], output[1]["id"]);
      EXPECT_EQ(event["arguments"], "{\"a\": 1}");
    }
  }
}

TEST(ResponseEventsTest, ACallCarriesTheNamesThatTheClientKnows) {
  ChatResult result;
  result.tool_calls = {{.id = "c1", .name = "docs__search", .arguments = "{}"},
                       {.id = "c2", .name = "search", .arguments = "{}"}};
  const Json json =
      ResponseEvents({}, Json::object(), {{"docs__search", {"docs", "search"}}})
          .Whole(result);
  EXPECT_EQ(json["output"][0]["namespace"], "docs");
  EXPECT_EQ(json["output"][0]["name"], "search");
  EXPECT_FALSE(json["output"][1].contains("namespace"));
}

TEST(ResponseEventsTest, AnEmptyAnswerIsAMessageToo) {
  ResponseEvents out({}, Json::object());
  const auto events = Events(out.Finish({.finish_reason = "stop"}));
  EXPECT_EQ(events.back()["response"]["output"][0]["content"][0]["text"], "");
}

TEST(ResponseEventsTest, AFailureEndsTheStream) {
  ResponseEvents out({}, Json::object());
  std::string bytes = out.Text("Hel", nullptr);
  bytes += out.Fail({.status = 408, .message = "too long"});
  const auto events = Events(bytes);
  EXPECT_EQ(events.back()["type"], "response.failed");
  EXPECT_EQ(events.back()["response"]["status"], "failed");
  EXPECT_EQ(events.back()["response"]["error"]["message"], "too long");
}

}  // namespace
}  // namespace nexus::serve
