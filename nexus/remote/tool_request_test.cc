#include "nexus/remote/tool_request.h"

#include "gmock/gmock.h"

#include "nexus/schema/ir_signature.h"

namespace nexus::remote {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Json Body() {
  return Json::parse(R"({"model": "ours", "nexus": true, "seed": 3,
    "tool_choice": "auto", "parallel_tool_calls": false,
    "messages": [{"role": "user", "content": "weather in Paris"}],
    "tools": [
      {"type": "function", "function": {"name": "a", "description": "First.",
        "strict": true, "parameters": {"type": "object", "properties": {
          "city": {"type": "string", "description": "A long explanation",
                   "pattern": "^[A-Z]"},
          "unit": {"type": "string", "enum": ["c", "f"]}},
          "required": ["city"]}}},
      {"type": "function", "function": {"name": "b"}, "extra": 1}]})");
}

std::vector<schema::ToolSchema> ToolsOf(const Json& body) {
  std::vector<schema::ToolSchema> tools;
  for (const Json& entry : body["tools"]) {
    tools.push_back(*schema::ParseTool(entry, "", "test"));
  }
  return tools;
}

TEST(ToolRequestTest, LeavesAllElseAsTheClientWroteIt) {
  const Json body = Body();
  const Json out = OutgoingRequest(body, "");
  EXPECT_FALSE(out.contains("nexus"));
  EXPECT_EQ(out["model"], "ours");
  EXPECT_EQ(out["tools"], body["tools"]);
  EXPECT_EQ(out["seed"], 3);
  EXPECT_EQ(OutgoingRequest(body, "theirs")["model"], "theirs");
}

TEST(ToolRequestTest, SendsThePickedToolsAlone) {
  const Json body = Body();
  const auto tools = ToolsOf(body);
  const Json out = OutgoingRequest(
      body, tools, {.tools = {1}, .must_call = true}, SchemaForm::kFull, "");
  EXPECT_EQ(out["tools"], Json::array({body["tools"][1]}));
  EXPECT_EQ(out["tool_choice"], "required");
  EXPECT_EQ(out["parallel_tool_calls"], false);
}

TEST(ToolRequestTest, LeavesOutWhatMeansNothingWithoutTools) {
  const Json body = Body();
  const auto tools = ToolsOf(body);
  const Json out = OutgoingRequest(body, tools, {}, SchemaForm::kFull, "");
  for (const char* key : {"tools", "tool_choice", "parallel_tool_calls"}) {
    EXPECT_FALSE(out.contains(key)) << key;
  }
}

TEST(ToolRequestTest, ShortSchemasKeepNamesTypesAndEnums) {
  const Json body = Body();
  const auto tools = ToolsOf(body);
  const Json out =
      OutgoingRequest(body, tools, {.tools = {0}}, SchemaForm::kShort, "");
  const Json& function = out["tools"][0]["function"];
  EXPECT_EQ(function["name"], "a");
  EXPECT_EQ(function["description"], schema::IrSignature(tools[0]));
  EXPECT_FALSE(function.contains("strict"));
  const Json& parameters = function["parameters"];
  EXPECT_EQ(parameters["properties"]["city"], Json({{"type", "string"}}));
  EXPECT_EQ(parameters["properties"]["unit"]["enum"], Json::array({"c", "f"}));
  EXPECT_EQ(parameters["required"], Json::array({"city"}));
  EXPECT_LT(DumpJson(out["tools"][0]).size(),
            DumpJson(body["tools"][0]).size());
}

TEST(ToolRequestTest, FindsWhatTheUserWants) {
  EXPECT_EQ(LastUserText(Body()), "weather in Paris");
  EXPECT_TRUE(EndsWithUser(Body()));
  const Json parts = Json::parse(R"({"messages": [
    {"role": "user", "content": [{"type": "text", "text": "what is"},
      {"type": "image_url", "image_url": {"url": "x"}},
      {"type": "text", "text": "this"}]},
    {"role": "assistant", "tool_calls": [
      {"function": {"name": "b"}}, {"function": {"name": "a"}},
      {"function": {"name": "b"}}]}]})");
  EXPECT_EQ(LastUserText(parts), "what is this");
  EXPECT_FALSE(EndsWithUser(parts));
  EXPECT_THAT(CalledTools(parts), ElementsAre("b", "a"));
}

TEST(ToolRequestTest, TakesMessagesOfAnyShape) {
  for (const char* text :
       {"{}", R"({"messages": 1})", R"({"messages": [null, 3, [], {}]})",
        R"({"messages": [{"role": "user", "content": {"text": "x"}}]})",
        R"({"messages": [{"role": "user", "content": [1, {"text": 2}]}]})",
        R"({"messages": [{"tool_calls": [1, {"function": {"name": 1}}]}]})"}) {
    const Json body = Json::parse(text);
    EXPECT_EQ(LastUserText(body), "");
    EXPECT_THAT(CalledTools(body), IsEmpty());
    EndsWithUser(body);
  }
}

}  // namespace
}  // namespace nexus::remote
