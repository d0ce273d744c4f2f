#include "nexus/schema/schema_frame.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "nexus/base/test_util.h"
#include "nexus/schema/ir_signature.h"

namespace nexus::schema {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Family {
  const char* name;
  const char* chat_template;  // the part of a real template that tells
  const char* arguments_key;
};

constexpr Family kFamilies[] = {
    {"hermes",
     "{{- '\\n<tool_call>\\n{\"name\": \"' }}{{- '<|im_start|>assistant\\n' }}",
     "arguments"},
    {"chatml", "{{'<|im_start|>' + message['role'] + '\\n'}}", "arguments"},
    {"llama3",
     "{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>' }}",
     "parameters"},
    {"gemma", "{{ '<start_of_turn>' + role + '\\n' }}", "parameters"},
    {"mistral", "{{- \"[AVAILABLE_TOOLS][\" }}{{- \"[INST]\" }}", "arguments"},
    {"inst", "{{ '[INST] ' + message['content'] + ' [/INST]' }}", "arguments"},
    {"granite", "{{ '<|start_of_role|>' + message['role'] }}", "arguments"},
    {"phi", "{{'<|user|>\\n' + message['content'] + '<|end|>\\n'}}",
     "arguments"},
    {"plain", "", "arguments"},
    {"plain", "{{ '### Instruction:' }}", "arguments"},
};

ToolSchema Weather() {
  return ParseTool(ParseJson(
                       R"({"name": "get_weather", "description": "Weather now",
                     "parameters": {"type": "object",
                       "properties": {"city": {"type": "string"}}}})",
                       "test")
                       .value(),
                   "", "test")
      .value();
}

TEST(SchemaFrameTest, KnowsEachFamilyByItsMarkers) {
  for (const Family& family : kFamilies) {
    const SchemaFrame frame = FrameFor(family.chat_template, "llama");
    EXPECT_EQ(frame.family, family.name) << family.chat_template;
    EXPECT_FALSE(frame.reason.empty());
  }
}

// From the forced beginning to the closing text, the call holds one JSON value
// with the name and the arguments.
TEST(SchemaFrameTest, ACallParsesBackInEachFamily) {
  for (const Family& family : kFamilies) {
    const SchemaFrame frame = FrameFor(family.chat_template, "llama");
    const std::string name = "odd \"name\"\\é";
    const std::string call = RenderCallPreamble(frame, name) +
                             R"({"city": "Zürich }\n"})" + frame.call_suffix;
    EXPECT_THAT(call, StartsWith(frame.call_prefix));
    const size_t begin = call.find('{');
    const size_t end = call.rfind('}');
    ASSERT_NE(begin, std::string::npos);
    ASSERT_OK_AND_ASSIGN(
        const Json parsed,
        ParseJson(call.substr(begin, end + 1 - begin), "call"));
    EXPECT_EQ(parsed["name"], name) << family.name;
    EXPECT_EQ(parsed[family.arguments_key]["city"], "Zürich }\n");
    EXPECT_EQ(parsed.size(), 2u);
  }
}

// Three real templates, rendered by hand for the same call.
TEST(SchemaFrameTest, CallsAreByteForByteTheTemplatesOwn) {
  const auto call = [](const Family& family) {
    const SchemaFrame frame = FrameFor(family.chat_template, "");
    return RenderCallPreamble(frame, "f") + R"({"a": 1})" + frame.call_suffix;
  };
  EXPECT_EQ(call(kFamilies[0]),
            "<|im_start|>assistant\n<tool_call>\n{\"name\": \"f\", "
            "\"arguments\": {\"a\": 1}}\n</tool_call><|im_end|>\n");
  EXPECT_EQ(call(kFamilies[2]),
            "<|start_header_id|>assistant<|end_header_id|>\n\n{\"name\": "
            "\"f\", \"parameters\": {\"a\": 1}}<|eot_id|>");
  EXPECT_EQ(call(kFamilies[4]),
            "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": "
            "1}}]</s>");
}

TEST(SchemaFrameTest, BlocksHoldEveryToolBetweenPrefixAndSuffix) {
  const std::vector<ToolSchema> tools = {Weather(), Weather()};
  for (const Family& family : kFamilies) {
    const SchemaFrame frame = FrameFor(family.chat_template, "");
    EXPECT_EQ(RenderBlock(frame, tools),
              frame.block_prefix + ModelText(tools[0]) + frame.block_separator +
                  ModelText(tools[1]) + frame.block_suffix);
    EXPECT_EQ(RenderIrBlock(frame, tools),
              frame.ir_prefix + IrSignature(tools[0]) + "\n" +
                  IrSignature(tools[1]) + frame.ir_suffix);
    EXPECT_FALSE(frame.block_separator.empty());
  }
}

TEST(SchemaFrameTest, TheHermesBlockIsASystemTurnOfItsOwn) {
  const SchemaFrame frame = FrameFor(kFamilies[0].chat_template, "qwen2");
  const std::string block = RenderBlock(frame, {{Weather()}});
  EXPECT_THAT(block, StartsWith("<|im_start|>system\n# Tools\n\nYou may call "
                                "one or more functions"));
  EXPECT_THAT(block, HasSubstr("<tools>\n{\"type\": \"function\""));
  EXPECT_THAT(block, EndsWith("}\n</tool_call><|im_end|>\n"));
}

TEST(SchemaFrameTest, GemmaHasNoSystemTurn) {
  const SchemaFrame frame = FrameFor(kFamilies[3].chat_template, "gemma3");
  EXPECT_THAT(frame.block_prefix, StartsWith("<start_of_turn>user\n"));
  EXPECT_THAT(frame.head_prefix, StartsWith("<start_of_turn>user\n"));
}

TEST(SchemaFrameTest, SaysWhenTheModelWasTrainedOnAnotherCallFormat) {
  const SchemaFrame frame =
      FrameFor("<|im_start|> <tool_call>\n<function=f>", "qwen3");
  EXPECT_EQ(frame.family, "hermes");
  EXPECT_THAT(frame.reason, HasSubstr("XML"));
}

}  // namespace
}  // namespace nexus::schema
