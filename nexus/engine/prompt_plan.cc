#include "nexus/engine/prompt_plan.h"

#include <utility>

namespace nexus::engine {

using llm::ChatMessage;
using llm::Token;

PromptPlanner::PromptPlanner(const llm::Model* model)
    : model_(model),
      frame_(schema::FrameFor(model->info().chat_template,
                              model->info().architecture)) {
  auto chat_template = llm::ChatTemplate::Create(*model);
  if (chat_template.ok()) {
    template_ = std::move(chat_template).value();
  } else {
    template_note_ = chat_template.status().message();
  }
}

std::string PromptPlanner::FrameText(
    std::span<const ChatMessage> messages) const {
  std::string text;
  for (const ChatMessage& message : messages) {
    if (message.role == "system") {
      text += frame_.head_prefix + message.content + frame_.head_suffix;
    } else if (message.role == "user") {
      text += frame_.user_prefix + message.content + frame_.user_suffix;
    } else if (message.role == "tool") {
      text += frame_.result_prefix + message.content + frame_.result_suffix;
    } else {
      for (const llm::ToolCall& call : message.tool_calls) {
        text += schema::RenderCallPreamble(frame_, call.name) + call.arguments +
                frame_.call_suffix;
      }
      if (!message.content.empty() || message.tool_calls.empty()) {
        text += frame_.answer_prefix + message.content + frame_.answer_suffix;
      }
    }
  }
  return text;
}

Result<std::string> PromptPlanner::HistoryText(
    std::span<const ChatMessage> messages) const {
  std::vector<ChatMessage> history;
  // An explicit system turn: the templates' own defaults differ and some bring
  // the date in, which would change the tokens before every block daily.
  if (messages.empty() || messages.front().role != "system") {
    history.push_back(
        {.role = "system", .content = std::string(kDefaultSystemPrompt)});
  }
  history.insert(history.end(), messages.begin(), messages.end());
  if (template_ == nullptr) return FrameText(history);
  auto text = template_->Render(history, {.add_generation_prompt = false});
  // Templates may insist on alternating roles or refuse a system turn; the
  // frame has no such wishes.
  if (!text.ok()) return FrameText(history);
  return text;
}

Result<std::vector<Token>> PromptPlanner::HistoryTokens(
    std::span<const ChatMessage> messages) const {
  NEXUS_ASSIGN_OR_RETURN(const std::string text, HistoryText(messages));
  return model_->Tokenize(text, {.add_bos = true});
}

Result<std::vector<Token>> PromptPlanner::BlockTokens(
    std::span<const schema::ToolSchema> tools, ArgumentMode mode) const {
  return model_->Tokenize(mode == ArgumentMode::kSchema
                              ? schema::RenderBlock(frame_, tools)
                              : schema::RenderIrBlock(frame_, tools));
}

Result<PromptPlan> PromptPlanner::PlanCall(
    std::span<const ChatMessage> messages,
    std::span<const schema::ToolSchema> tools, ArgumentMode mode,
    std::string_view call_tool) const {
  if (messages.empty() || messages.back().role != "user") {
    return InvalidArgumentError(
        "the conversation must end with a message of role 'user'");
  }
  PromptPlan plan;
  NEXUS_ASSIGN_OR_RETURN(plan.history,
                         HistoryTokens(messages.first(messages.size() - 1)));
  NEXUS_ASSIGN_OR_RETURN(plan.block, BlockTokens(tools, mode));
  NEXUS_ASSIGN_OR_RETURN(
      plan.user, model_->Tokenize(frame_.user_prefix + messages.back().content +
                                  frame_.user_suffix));
  std::string preamble = schema::RenderCallPreamble(frame_, call_tool);
  if (preamble.ends_with(' ')) {
    preamble.pop_back();
    plan.space_before_arguments = true;
  }
  NEXUS_ASSIGN_OR_RETURN(plan.preamble, model_->Tokenize(preamble));
  return plan;
}

Result<PromptPlan> PromptPlanner::PlanAnswer(
    std::span<const ChatMessage> messages) const {
  PromptPlan plan;
  NEXUS_ASSIGN_OR_RETURN(plan.history, HistoryTokens(messages));
  NEXUS_ASSIGN_OR_RETURN(plan.preamble, model_->Tokenize(frame_.answer_prefix));
  return plan;
}

}  // namespace nexus::engine
