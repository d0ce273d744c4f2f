#include "nexus/llm/chat_template.h"

#include <chrono>
#include <exception>
#include <utility>

#include "chat.h"
#include "llama.h"

#include "nexus/base/json.h"
#include "nexus/llm/engine_log.h"

namespace nexus::llm {
namespace {

// A name no template contains by itself.
constexpr char kProbeTool[] = "nexus_probe_tool_7f3a";

// Templates may print today's date. A fixed one keeps the same messages the
// same text, so that yesterday's KV cells still fit. The Unix time is that
// date's noon.
constexpr char kFixedDate[] = "\"26 Jul 2024\"";
constexpr int64_t kFixedTime = 1721995200;

common_chat_msg ToEngine(const ChatMessage& message) {
  common_chat_msg result;
  result.role = message.role;
  result.content = message.content;
  result.tool_name = message.tool_name;
  result.tool_call_id = message.tool_call_id;
  for (const ToolCall& call : message.tool_calls) {
    result.tool_calls.push_back({call.name, call.arguments, call.id});
  }
  return result;
}

// The engine parses these texts and throws; checked here, the error says which.
Status CheckInput(std::span<const ChatMessage> messages,
                  const RenderOptions& options) {
  for (size_t i = 0; i < messages.size(); ++i) {
    const ChatMessage& message = messages[i];
    const std::string source = "message " + std::to_string(i);
    if (message.role.empty()) {
      return InvalidArgumentError(source + " has no role");
    }
    for (const ToolCall& call : message.tool_calls) {
      const auto arguments = ParseJson(
          call.arguments, source + ": arguments of tool '" + call.name + "'");
      if (!arguments.ok()) return arguments.status();
    }
  }
  for (const ToolText& tool : options.tools) {
    const auto parameters =
        ParseJson(tool.parameters, "parameters of tool '" + tool.name + "'");
    if (!parameters.ok()) return parameters.status();
  }
  return Status::Ok();
}

}  // namespace

struct ChatTemplate::Impl {
  common_chat_templates_ptr templates;
};

ChatTemplate::ChatTemplate() : impl_(std::make_unique<Impl>()) {}
ChatTemplate::~ChatTemplate() = default;

Result<std::unique_ptr<ChatTemplate>> ChatTemplate::Create(const Model& model) {
  InitEngine();
  const std::string& path = model.info().path;
  // The engine would quietly take ChatML instead.
  if (llama_model_chat_template(model.handle(), nullptr) == nullptr) {
    return NotFoundError(path +
                         ": the model has no chat template, as base models "
                         "don't; use an instruction-tuned one");
  }
  std::unique_ptr<ChatTemplate> result(new ChatTemplate());
  try {
    result->impl_->templates = common_chat_templates_init(model.handle(), "");
    result->source_ =
        common_chat_templates_source(result->impl_->templates.get());
  } catch (const std::exception& e) {
    return UnimplementedError(path +
                              ": its chat template doesn't parse: " + e.what());
  }
  const ChatMessage user = {.role = "user", .content = "Hello"};
  const ToolText tool = {.name = kProbeTool,
                         .description = "Probe.",
                         .parameters = R"({"type":"object","properties":{}})"};
  const auto rendered =
      result->Render({&user, 1}, {.tools = std::span(&tool, 1)});
  result->renders_tools_ =
      rendered.ok() && rendered->find(kProbeTool) != std::string::npos;
  return result;
}

Result<std::string> ChatTemplate::Render(std::span<const ChatMessage> messages,
                                         const RenderOptions& options) const {
  NEXUS_RETURN_IF_ERROR(CheckInput(messages, options));
  common_chat_templates_inputs inputs;
  inputs.use_jinja = true;
  inputs.add_generation_prompt = options.add_generation_prompt;
  inputs.enable_thinking = false;
  // Only the prompt is wanted, without the engine's tool-call grammar and
  // parser, which cost many renderings and refuse some templates.
  inputs.force_pure_content = true;
  inputs.now =
      std::chrono::system_clock::time_point(std::chrono::seconds(kFixedTime));
  inputs.chat_template_kwargs["date_string"] = kFixedDate;
  for (const ChatMessage& message : messages) {
    inputs.messages.push_back(ToEngine(message));
  }
  for (const ToolText& tool : options.tools) {
    inputs.tools.push_back({tool.name, tool.description, tool.parameters});
  }
  try {
    return common_chat_templates_apply(impl_->templates.get(), inputs).prompt;
  } catch (const std::exception& e) {
    return InvalidArgumentError(
        std::string("the chat template refuses these messages: ") + e.what());
  }
}

}  // namespace nexus::llm
