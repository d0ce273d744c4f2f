#include "nexus/engine/next_turn.h"

#include <algorithm>
#include <vector>

#include "nexus/base/clock.h"

namespace nexus::engine {
namespace {

using llm::Token;

// False when it was cancelled before the end.
Result<bool> AppendInPieces(Session& session, std::span<const Token> tokens,
                            const std::atomic<bool>* cancel,
                            NextTurnReport* report) {
  for (size_t at = 0; at < tokens.size(); at += kIdlePieceTokens) {
    if (cancel != nullptr && cancel->load()) return false;
    const size_t count = std::min(kIdlePieceTokens, tokens.size() - at);
    const auto begin = Clock::Monotonic().Now();
    const Status appended =
        session.Append(tokens.subspan(at, count), llm::Logits::kNone);
    if (appended.code() == StatusCode::kCancelled) return false;
    NEXUS_RETURN_IF_ERROR(appended);
    ++report->pieces;
    report->decoded_tokens += static_cast<int>(count);
    report->longest_piece_ms =
        std::max(report->longest_piece_ms,
                 Milliseconds(Clock::Monotonic().Now() - begin));
  }
  return true;
}

}  // namespace

Result<NextTurnReport> PrepareNextTurn(
    Session& session, const PromptPlanner& planner,
    std::span<const llm::ChatMessage> messages,
    const NextTurnOptions& options) {
  NextTurnReport report;
  NEXUS_ASSIGN_OR_RETURN(const std::vector<Token> history,
                         planner.HistoryTokens(messages));
  NEXUS_RETURN_IF_ERROR(session.TruncateTo(session.ExactPrefix(history)));
  const size_t common = session.tokens().size();
  report.reused_tokens = static_cast<int>(common);
  NEXUS_ASSIGN_OR_RETURN(
      report.history_ready,
      AppendInPieces(session, std::span(history).subspan(common),
                     options.cancel, &report));
  if (!report.history_ready) return report;
  // The likely one comes last and stays in place.
  std::vector<const schema::ToolSchema*> tools = options.keep_tools;
  std::erase(tools, options.likely_tool);
  if (options.likely_tool != nullptr) tools.push_back(options.likely_tool);
  PromptPlan plan;
  plan.history = history;
  for (const schema::ToolSchema* tool : tools) {
    NEXUS_RETURN_IF_ERROR(session.TruncateTo(history.size()));
    NEXUS_ASSIGN_OR_RETURN(
        plan.block, planner.BlockTokens({tool, 1}, ArgumentMode::kSchema));
    NEXUS_ASSIGN_OR_RETURN(
        const bool decoded,
        AppendInPieces(session, plan.block, options.cancel, &report));
    if (!decoded) return report;
    report.tool_ready = tool == options.likely_tool;
    NEXUS_ASSIGN_OR_RETURN(const auto kept, session.Remember(plan, *tool));
    report.kept_tools += kept != nullptr ? 1 : 0;
  }
  if (options.likely_tool == nullptr) {
    NEXUS_RETURN_IF_ERROR(session.TruncateTo(history.size()));
  }
  return report;
}

}  // namespace nexus::engine
