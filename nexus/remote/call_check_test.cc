#include "nexus/remote/call_check.h"

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"

namespace nexus::remote {
namespace {

using testing::HasSubstr;

std::vector<schema::ToolSchema> Tools() {
  schema::ToolSchema weather;
  weather.name = "get_weather";
  weather.parameters = Json::parse(R"({"type": "object",
      "properties": {"city": {"type": "string"},
                     "days": {"type": "integer", "maximum": 7}},
      "required": ["city"]})");
  schema::ToolSchema odd;
  odd.name = "odd";
  odd.parameters = Json::parse(R"({"$ref": "http://elsewhere/schema"})");
  return {weather, odd};
}

TEST(CallCheckTest, LetsGoodCallsThrough) {
  const auto tools = Tools();
  CallChecker checker(tools);
  EXPECT_OK(checker.Check({"1", "get_weather", R"({"city": "Paris"})"}));
  EXPECT_OK(
      checker.Check({"2", "get_weather", R"({"city": "Rome", "days": 7})"}));
}

TEST(CallCheckTest, SaysWhatIsWrong) {
  const auto tools = Tools();
  CallChecker checker(tools);
  EXPECT_THAT(checker.Check({"", "get_weather", "{}"}).message(),
              HasSubstr("city"));
  EXPECT_THAT(checker.Check({"", "get_weather", R"({"city": "x", "days": 8})"})
                  .message(),
              HasSubstr("days"));
  EXPECT_THAT(checker.Check({"", "get_weather", R"({"city": )"}).message(),
              HasSubstr("arguments"));
  EXPECT_THAT(checker.Check({"", "get_weather", "[1]"}).message(),
              HasSubstr("object"));
  EXPECT_THAT(checker.Check({"", "get_wether", "{}"}).message(),
              HasSubstr("get_weather"));
}

TEST(CallCheckTest, CantJudgeByAnUnusableSchema) {
  const auto tools = Tools();
  CallChecker checker(tools);
  EXPECT_OK(checker.Check({"", "odd", R"({"any": 1})"}));
}

TEST(CallCheckTest, AsksForTheCallAgain) {
  const Json body = Json::parse(R"({"model": "m", "stream": true, "n": 1,
      "stream_options": {"include_usage": true}, "temperature": 0,
      "messages": [{"role": "user", "content": "weather"}]})");
  const std::vector<WrongCall> wrong = {
      {{"a", "get_weather", R"({"city": 3})"}, "city: not a string"},
      {{"", "get_weather", R"({"city": )"}, "broken"}};
  const Json request = RepairRequest(body, wrong, Json::array({"tool"}));
  EXPECT_EQ(request["stream"], false);
  EXPECT_FALSE(request.contains("stream_options"));
  EXPECT_EQ(request["tool_choice"], "required");
  EXPECT_EQ(request["tools"], Json::array({"tool"}));
  EXPECT_EQ(request["temperature"], 0);
  const Json& messages = request["messages"];
  ASSERT_EQ(messages.size(), 4U);
  const Json& calls = messages[1]["tool_calls"];
  EXPECT_EQ(calls[0]["id"], "a");
  EXPECT_EQ(calls[0]["function"]["arguments"], R"({"city":3})");
  // Broken JSON would stop the remote's template.
  EXPECT_EQ(calls[1]["function"]["arguments"], "{}");
  EXPECT_EQ(messages[2]["tool_call_id"], "a");
  EXPECT_THAT(messages[2]["content"].get<std::string>(),
              HasSubstr("not a string"));
  EXPECT_EQ(messages[3]["tool_call_id"], calls[1]["id"]);
  EXPECT_THAT(messages[3]["content"].get<std::string>(),
              HasSubstr(R"({"city": )"));
}

}  // namespace
}  // namespace nexus::remote
