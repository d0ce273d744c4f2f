#include "nexus/llm/chat_template.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "nexus/base/test_util.h"
#include "nexus/llm/e2e_models_for_test.h"
#include "nexus/llm/testing/tiny_model.h"

namespace nexus::llm {
namespace {

// In the manner of Qwen's: tools in the system message, calls and results
// tagged.
constexpr char kToolTemplate[] =
    "{%- if tools %}<|im_start|>system\nTools:\n"
    "{%- for tool in tools %}\n{{ tool | tojson }}{%- endfor %}<|im_end|>\n"
    "{%- endif %}"
    "{%- for message in messages %}"
    "{%- if message.role not in ['system', 'user', 'assistant', 'tool'] %}"
    "{{ raise_exception('unknown role ' + message.role) }}{%- endif %}"
    "<|im_start|>{{ message.role }}\n{{ message.content }}"
    "{%- if message.tool_calls %}{%- for call in message.tool_calls %}"
    "<tool_call>{\"name\": \"{{ call.function.name }}\", \"arguments\": "
    "{{ call.function.arguments | tojson }}}</tool_call>"
    "{%- endfor %}{%- endif %}<|im_end|>\n{%- endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{%- endif %}";

class ChatTemplateTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<ChatTemplate>> ForTemplate(const std::string& text) {
    testing::TinyModelOptions options;
    options.chat_template = text;
    const std::string path = dir_.File("tiny.gguf");
    NEXUS_RETURN_IF_ERROR(testing::WriteTinyModel(path, options));
    NEXUS_ASSIGN_OR_RETURN(model_, Model::Load({.path = path}));
    return ChatTemplate::Create(*model_);
  }

  ScopedTempDir dir_;
  std::shared_ptr<const Model> model_;
};

TEST_F(ChatTemplateTest, RendersSmolLm2) {
  ASSERT_OK_AND_ASSIGN(const auto model, LoadSmolLm2({.vocab_only = true}));
  ASSERT_OK_AND_ASSIGN(const auto chat, ChatTemplate::Create(*model));
  EXPECT_EQ(chat->source(), model->info().chat_template);
  EXPECT_FALSE(chat->renders_tools());
  const std::vector<ChatMessage> messages = {
      {.role = "system", .content = "Be brief."},
      {.role = "user", .content = "Hi"}};
  ASSERT_OK_AND_ASSIGN(const auto text, chat->Render(messages));
  EXPECT_EQ(text,
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi"
            "<|im_end|>\n<|im_start|>assistant\n");
  ASSERT_OK_AND_ASSIGN(
      const auto closed,
      chat->Render(messages, {.add_generation_prompt = false}));
  EXPECT_EQ(closed + "<|im_start|>assistant\n", text);
}

TEST_F(ChatTemplateTest, RendersToolsCallsAndResults) {
  ASSERT_OK_AND_ASSIGN(const auto chat, ForTemplate(kToolTemplate));
  EXPECT_TRUE(chat->renders_tools());
  const std::vector<ToolText> tools = {
      {.name = "get_weather",
       .description = "Weather of a city.",
       .parameters =
           R"({"type":"object","properties":{"zone":{"type":"string"},"city":{"type":"string"}}})"}};
  std::vector<ChatMessage> messages = {
      {.role = "user", .content = "Weather in Oslo?"},
      {.role = "assistant"},
      {.role = "tool", .content = "rain", .tool_call_id = "1"}};
  messages[1].tool_calls = {
      {.id = "1", .name = "get_weather", .arguments = R"({"city":"Oslo"})"}};
  ASSERT_OK_AND_ASSIGN(const auto text,
                       chat->Render(messages, {.tools = tools}));
  EXPECT_NE(text.find("Weather of a city."), std::string::npos) << text;
  // The author's order of properties.
  EXPECT_LT(text.find("\"zone\""), text.find("\"city\"")) << text;
  EXPECT_NE(text.find("<tool_call>{\"name\": \"get_weather\""),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("Oslo\"}"), std::string::npos) << text;
  EXPECT_NE(text.find("<|im_start|>tool\nrain"), std::string::npos) << text;
  EXPECT_EQ(*chat->Render(messages, {.tools = tools}), text);
}

TEST_F(ChatTemplateTest, DatesAreFixed) {
  ASSERT_OK_AND_ASSIGN(
      const auto chat,
      ForTemplate("{{ date_string }}{% for m in messages %}{{ m.content }}"
                  "{% endfor %}"));
  const ChatMessage user = {.role = "user", .content = "x"};
  EXPECT_EQ(*chat->Render({&user, 1}), "26 Jul 2024x");
}

TEST_F(ChatTemplateTest, RefusalsAreStatuses) {
  ASSERT_OK_AND_ASSIGN(const auto chat, ForTemplate(kToolTemplate));
  const ChatMessage odd = {.role = "oracle", .content = "x"};
  const auto refused = chat->Render({&odd, 1});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("oracle"), std::string::npos);

  const ChatMessage nobody = {.content = "x"};
  EXPECT_EQ(chat->Render({&nobody, 1}).status().code(),
            StatusCode::kInvalidArgument);
  ChatMessage broken = {.role = "assistant"};
  broken.tool_calls = {{.id = "1", .name = "t", .arguments = "{\"a\":"}};
  EXPECT_FALSE(chat->Render({&broken, 1}).ok());
  const ToolText tool = {.name = "t", .parameters = "not json"};
  const ChatMessage user = {.role = "user", .content = "x"};
  EXPECT_FALSE(chat->Render({&user, 1}, {.tools = {&tool, 1}}).ok());
  // Bytes that aren't UTF-8 come back or are refused, but never throw.
  const ChatMessage bytes = {.role = "user", .content = "\xFF\xFE"};
  static_cast<void>(chat->Render({&bytes, 1}));
}

TEST_F(ChatTemplateTest, ModelsWithoutOneAreNotFound) {
  EXPECT_EQ(ForTemplate("").status().code(), StatusCode::kNotFound);
}

TEST_F(ChatTemplateTest, TemplatesThatDontParseAreUnimplemented) {
  for (const char* text :
       {"{% if %}", "{{ x", "{% for m in messages %}{{ m.content }}"}) {
    const auto chat = ForTemplate(text);
    ASSERT_FALSE(chat.ok()) << text;
    EXPECT_EQ(chat.status().code(), StatusCode::kUnimplemented) << text;
  }
}

}  // namespace
}  // namespace nexus::llm
