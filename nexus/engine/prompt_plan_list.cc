// Plans of lists: several tools in the system turn, each tokenised apart.
#include <utility>

#include "nexus/engine/prompt_plan.h"

namespace nexus::engine {
namespace {

using llm::ChatMessage;
using llm::Token;

}  // namespace

std::vector<Token> AllTokens(const PromptPlan& plan) {
  std::vector<Token> all;
  all.reserve(plan.TokenCount());
  for (const auto* part :
       {&plan.history, &plan.block, &plan.user, &plan.preamble}) {
    all.insert(all.end(), part->begin(), part->end());
  }
  return all;
}

PromptPlanner::ListFrame PromptPlanner::MakeListFrame() const {
  ListFrame list;
  list.head_prefix = frame_.head_prefix;
  list.suffix = frame_.block_suffix;
  if (frame_.block_prefix.starts_with(frame_.head_prefix)) {
    // Both are system turns: one turn, as the templates that know lists have
    // it.
    list.prefix =
        "\n\n" + frame_.block_prefix.substr(frame_.head_prefix.size());
  } else {
    list.prefix = frame_.head_suffix + frame_.block_prefix;
  }
  if (list.suffix.starts_with(frame_.block_separator)) {
    list.tool_suffix = frame_.block_separator;
    list.suffix.erase(0, frame_.block_separator.size());
  } else {
    list.separator = frame_.block_separator;
  }
  return list;
}

Result<std::vector<Token>> PromptPlanner::ListToolTokens(
    const schema::ToolSchema& tool) const {
  std::vector<Token> tokens;
  NEXUS_RETURN_IF_ERROR(AppendContent(
      schema::ModelText(tool) + MakeListFrame().tool_suffix, &tokens));
  return tokens;
}

Result<PromptPlan> PromptPlanner::PlanListBlock(
    std::string_view system, std::span<const schema::ToolSchema> tools) const {
  if (tools.empty()) return InvalidArgumentError("a list needs a tool");
  const ListFrame list = MakeListFrame();
  PromptPlan plan;
  NEXUS_ASSIGN_OR_RETURN(plan.history,
                         model_->Tokenize(list.head_prefix, {.add_bos = true}));
  NEXUS_RETURN_IF_ERROR(AppendContent(system, &plan.history));

  const auto close_piece = [&plan](PlanPiece piece) {
    piece.begin = plan.pieces.empty() ? 0 : plan.pieces.back().end;
    piece.end = plan.block.size();
    if (piece.end > piece.begin) plan.pieces.push_back(std::move(piece));
  };
  NEXUS_RETURN_IF_ERROR(AppendFrame(list.prefix, &plan.block));
  close_piece({});
  bool is_first = true;
  for (const schema::ToolSchema& tool : tools) {
    if (!std::exchange(is_first, false)) {
      NEXUS_RETURN_IF_ERROR(AppendFrame(list.separator, &plan.block));
      close_piece({});
    }
    NEXUS_ASSIGN_OR_RETURN(const std::vector<Token> tokens,
                           ListToolTokens(tool));
    plan.block.insert(plan.block.end(), tokens.begin(), tokens.end());
    PlanPiece piece;
    piece.tool_name = schema::ToolId(tool);
    piece.schema_hash = ToHex(schema::SchemaHash(tool));
    close_piece(std::move(piece));
  }
  NEXUS_RETURN_IF_ERROR(AppendFrame(list.suffix, &plan.block));
  close_piece({});
  return plan;
}

Result<std::vector<Token>> PromptPlanner::ListTurnTokens(
    std::span<const ChatMessage> messages) const {
  if (messages.empty()) return InvalidArgumentError("there are no messages");
  const bool ends_with_user = messages.back().role == "user";
  NEXUS_ASSIGN_OR_RETURN(
      const std::vector<ChatMessage> history,
      SafeMessages(ends_with_user ? messages.first(messages.size() - 1)
                                  : messages));
  std::vector<Token> tokens;
  if (history.size() > 1) {
    const std::span<const ChatMessage> all(history);
    std::string text = FrameText(all.subspan(1));
    if (template_ != nullptr) {
      // The template's own text of these turns, where it renders them behind a
      // system turn that can be cut off.
      const auto head =
          template_->Render(all.first(1), {.add_generation_prompt = false});
      const auto whole =
          template_->Render(all, {.add_generation_prompt = false});
      if (head.ok() && whole.ok() && whole->starts_with(*head)) {
        text = whole->substr(head->size());
      }
    }
    NEXUS_RETURN_IF_ERROR(AppendFrame(text, &tokens));
  }
  if (!ends_with_user) return tokens;
  NEXUS_ASSIGN_OR_RETURN(const std::vector<Token> user,
                         UserTokens(messages.back().content));
  tokens.insert(tokens.end(), user.begin(), user.end());
  return tokens;
}

Result<std::vector<Token>> PromptPlanner::CallOpeningTokens() const {
  return model_->Tokenize(frame_.call_prefix + "\"");
}

Result<PromptPlan> PromptPlanner::PlanList(
    std::span<const ChatMessage> messages,
    std::span<const schema::ToolSchema> tools,
    std::string_view call_tool) const {
  const bool has_system =
      !messages.empty() && messages.front().role == "system";
  const std::string_view system =
      has_system ? std::string_view(messages.front().content)
                 : compile::kDefaultSystemPrompt;
  NEXUS_ASSIGN_OR_RETURN(PromptPlan plan, PlanListBlock(system, tools));
  NEXUS_ASSIGN_OR_RETURN(plan.user, ListTurnTokens(messages));
  if (call_tool.empty()) {
    NEXUS_ASSIGN_OR_RETURN(plan.preamble, CallOpeningTokens());
  } else {
    NEXUS_ASSIGN_OR_RETURN(
        plan.preamble, PreambleTokens(call_tool, &plan.space_before_arguments));
  }
  return plan;
}

}  // namespace nexus::engine
