#include "nexus/serve/tool_choice.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"

#include "nexus/base/test_util.h"

namespace nexus::serve {
namespace {

schema::ToolSchema Tool(const std::string& name,
                        const std::string& description) {
  schema::ToolSchema tool;
  tool.name = name;
  tool.description = description;
  return tool;
}

class ToolChoiceTest : public testing::Test {
 protected:
  ToolChoiceTest() {
    job_.request.tools = {
        Tool("get_weather", "Weather forecast of a city"),
        Tool("send_email", "Send an email message to a person"),
        Tool("convert_currency", "Convert money between currencies")};
  }

  void Say(const std::string& text) {
    job_.request.messages.push_back({.role = "user", .content = text});
  }
  void CallAndResult(const std::string& tool) {
    llm::ChatMessage call = {.role = "assistant"};
    call.tool_calls = {{.id = "c", .name = tool, .arguments = "{}"}};
    job_.request.messages.push_back(std::move(call));
    job_.request.messages.push_back(
        {.role = "tool", .content = "18 degrees", .tool_name = tool});
  }
  // Empty: an answer in words.
  std::string Chosen() {
    job_.tool.reset();
    job_.decision.reset();
    EXPECT_OK(ChooseTool(&router_, &job_));
    return job_.tool.has_value() ? job_.tool->name : "";
  }

  ToolRouter router_{nullptr, {}};
  ChatJob job_;
};

TEST_F(ToolChoiceTest, RoutesTheUsersMessage) {
  Say("What is the weather in this city?");
  EXPECT_EQ(Chosen(), "get_weather");
  EXPECT_EQ(job_.routed_text, "What is the weather in this city?");
}

TEST_F(ToolChoiceTest, OneWishIsOneCall) {
  Say("What is the weather in this city?");
  CallAndResult("get_weather");
  EXPECT_EQ(Chosen(), "");
  EXPECT_FALSE(job_.decision.has_value());
}

TEST_F(ToolChoiceTest, GoesOnToWhatIsLeft) {
  Say("Tell me the weather forecast of the city, then send an email to Ann.");
  CallAndResult("get_weather");
  EXPECT_EQ(Chosen(), "send_email");
  EXPECT_EQ(job_.routed_text, "send an email to Ann");
  CallAndResult("send_email");
  EXPECT_EQ(Chosen(), "");
}

TEST_F(ToolChoiceTest, TheOrderOfTheCallsDoesNotMatter) {
  Say("Tell me the weather forecast of the city, then send an email to Ann.");
  CallAndResult("send_email");
  EXPECT_EQ(Chosen(), "get_weather");
}

TEST_F(ToolChoiceTest, TheSameToolIsWantedTwice) {
  Say("Convert money of France into dollars. Convert money of Japan as well.");
  CallAndResult("convert_currency");
  EXPECT_EQ(Chosen(), "convert_currency");
  CallAndResult("convert_currency");
  EXPECT_EQ(Chosen(), "");
}

TEST_F(ToolChoiceTest, CallsThatNobodyAskedForEndItToo) {
  Say("Tell me the weather forecast of the city, then send an email to Ann.");
  CallAndResult("convert_currency");
  CallAndResult("convert_currency");
  EXPECT_EQ(Chosen(), "");
}

TEST_F(ToolChoiceTest, WhatFollowsAnAnswerIsCountedAnew) {
  Say("Send an email to Ann.");
  CallAndResult("send_email");
  job_.request.messages.push_back({.role = "assistant", .content = "Done."});
  Say("Send an email to Bob, then tell me the weather forecast of the city.");
  CallAndResult("send_email");
  EXPECT_EQ(Chosen(), "get_weather");
}

TEST_F(ToolChoiceTest, RequiredCallsEvenWhenNothingIsLeft) {
  job_.request.tool_choice = ToolChoice::kRequired;
  Say("What is the weather in this city?");
  CallAndResult("get_weather");
  EXPECT_EQ(Chosen(), "get_weather");
  job_.request.tool_choice = ToolChoice::kNone;
  EXPECT_EQ(Chosen(), "");
}

TEST_F(ToolChoiceTest, WithoutAUsersMessageNothingIsRouted) {
  job_.request.messages = {{.role = "system", .content = "Be brief."}};
  EXPECT_EQ(Chosen(), "");
}

}  // namespace
}  // namespace nexus::serve
