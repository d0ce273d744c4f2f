#include "nexus/engine/prompt_plan.h"

#include <set>
#include <utility>

#include "nexus/base/check.h"

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

Status PromptPlanner::AppendFrame(std::string_view text,
                                  std::vector<Token>* tokens) const {
  if (text.empty()) return Status::Ok();
  NEXUS_ASSIGN_OR_RETURN(const std::vector<Token> more, model_->Tokenize(text));
  tokens->insert(tokens->end(), more.begin(), more.end());
  return Status::Ok();
}

Status PromptPlanner::AppendContent(std::string_view text,
                                    std::vector<Token>* tokens) const {
  if (text.empty()) return Status::Ok();
  NEXUS_ASSIGN_OR_RETURN(const std::vector<Token> more,
                         model_->Tokenize(text, {.parse_special = false}));
  tokens->insert(tokens->end(), more.begin(), more.end());
  return Status::Ok();
}

Result<std::string> PromptPlanner::WithoutSpecials(
    const std::string& text) const {
  NEXUS_ASSIGN_OR_RETURN(const std::vector<Token> special,
                         model_->Tokenize(text));
  NEXUS_ASSIGN_OR_RETURN(const std::vector<Token> plain,
                         model_->Tokenize(text, {.parse_special = false}));
  if (special == plain) return text;
  std::string safe = text;
  const std::set<Token> distinct(special.begin(), special.end());
  for (const Token token : distinct) {
    const std::string spelling = model_->TokenText(token);
    if (spelling.size() < 2) continue;
    NEXUS_ASSIGN_OR_RETURN(
        const std::vector<Token> alone,
        model_->Tokenize(spelling, {.parse_special = false}));
    if (alone.size() == 1) continue;
    constexpr std::string_view kZeroWidthSpace = "\u200B";
    for (size_t at = safe.find(spelling); at != std::string::npos;
         at = safe.find(spelling, at + spelling.size())) {
      safe.insert(at + 1, kZeroWidthSpace);
    }
  }
  return safe;
}

Result<std::vector<ChatMessage>> PromptPlanner::SafeMessages(
    std::span<const ChatMessage> messages) const {
  std::vector<ChatMessage> history;
  // An explicit system turn: the templates' own defaults differ and some bring
  // the date in, which would change the tokens before every block daily.
  if (messages.empty() || messages.front().role != "system") {
    history.push_back({.role = "system",
                       .content = std::string(compile::kDefaultSystemPrompt)});
  }
  history.insert(history.end(), messages.begin(), messages.end());
  for (ChatMessage& message : history) {
    NEXUS_ASSIGN_OR_RETURN(message.content, WithoutSpecials(message.content));
  }
  return history;
}

Result<std::string> PromptPlanner::HistoryText(
    std::span<const ChatMessage> messages) const {
  NEXUS_ASSIGN_OR_RETURN(const std::vector<ChatMessage> history,
                         SafeMessages(messages));
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

Result<std::vector<Token>> PromptPlanner::UserTokens(
    std::string_view content) const {
  std::vector<Token> tokens;
  NEXUS_RETURN_IF_ERROR(AppendFrame(frame_.user_prefix, &tokens));
  NEXUS_RETURN_IF_ERROR(AppendContent(content, &tokens));
  NEXUS_RETURN_IF_ERROR(AppendFrame(frame_.user_suffix, &tokens));
  return tokens;
}

Result<std::vector<Token>> PromptPlanner::PreambleTokens(
    std::string_view call_tool, bool* space_follows) const {
  NEXUS_ASSIGN_OR_RETURN(const std::string safe_name,
                         WithoutSpecials(std::string(call_tool)));
  if (safe_name != call_tool) {
    return InvalidArgumentError("the tool's name '" + std::string(call_tool) +
                                "' spells a special token of the model");
  }
  std::string preamble = schema::RenderCallPreamble(frame_, call_tool);
  *space_follows = preamble.ends_with(' ');
  if (*space_follows) preamble.pop_back();
  return model_->Tokenize(preamble);
}

Result<std::vector<Token>> PromptPlanner::BlockTokens(
    std::span<const schema::ToolSchema> tools, ArgumentMode mode) const {
  const bool ir = mode == ArgumentMode::kIr;
  const std::string text = ir ? schema::RenderIrBlock(frame_, tools)
                              : schema::RenderBlock(frame_, tools);
  const std::string& prefix = ir ? frame_.ir_prefix : frame_.block_prefix;
  const std::string& suffix = ir ? frame_.ir_suffix : frame_.block_suffix;
  NEXUS_CHECK(text.size() >= prefix.size() + suffix.size());
  std::vector<Token> tokens;
  NEXUS_RETURN_IF_ERROR(AppendFrame(prefix, &tokens));
  NEXUS_RETURN_IF_ERROR(AppendContent(
      std::string_view(text).substr(
          prefix.size(), text.size() - prefix.size() - suffix.size()),
      &tokens));
  NEXUS_RETURN_IF_ERROR(AppendFrame(suffix, &tokens));
  return tokens;
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
  NEXUS_ASSIGN_OR_RETURN(plan.user, UserTokens(messages.back().content));
  NEXUS_ASSIGN_OR_RETURN(
      plan.preamble, PreambleTokens(call_tool, &plan.space_before_arguments));
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
