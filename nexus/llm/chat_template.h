// ChatTemplate: renders messages with the model's own template, through
// llama.cpp's jinja engine.
#ifndef NEXUS_LLM_CHAT_TEMPLATE_H_
#define NEXUS_LLM_CHAT_TEMPLATE_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/llm/model.h"

namespace nexus::llm {

struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  // JSON text

  friend bool operator==(const ToolCall&, const ToolCall&) = default;
};

struct ChatMessage {
  std::string role;  // "system", "user", "assistant", "tool"
  std::string content;
  std::vector<ToolCall> tool_calls;  // of an assistant message
  std::string tool_call_id;          // of a tool message
  std::string tool_name;             // of a tool message
};

struct ToolText {
  std::string name;
  std::string description;
  std::string parameters;  // JSON Schema text
};

struct RenderOptions {
  bool add_generation_prompt = true;
  std::span<const ToolText> tools;
};

// Thread-safe after Create.
class ChatTemplate {
 public:
  // kNotFound when the model has none (a base model); kUnimplemented when the
  // template doesn't parse, with the engine's message.
  static Result<std::unique_ptr<ChatTemplate>> Create(const Model& model);

  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  const std::string& source() const { return source_; }
  // True when the rendered text holds a tool given to it.
  bool renders_tools() const { return renders_tools_; }

  // kInvalidArgument when the template refuses the messages (it may raise).
  Result<std::string> Render(std::span<const ChatMessage> messages,
                             const RenderOptions& options = {}) const;

 private:
  struct Impl;
  ChatTemplate();

  std::unique_ptr<Impl> impl_;
  std::string source_;
  bool renders_tools_ = false;
};

}  // namespace nexus::llm

#endif  // NEXUS_LLM_CHAT_TEMPLATE_H_
