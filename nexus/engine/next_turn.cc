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
  PromptPlan plan;
  plan.history = history;
  const auto decode = [&](const schema::ToolSchema& tool) -> Result<bool> {
    NEXUS_ASSIGN_OR_RETURN(
        plan.block, planner.BlockTokens({&tool, 1}, ArgumentMode::kSchema));
    return AppendInPieces(session, plan.block, options.cancel, &report);
  };
  // What can't be kept (no room, a full disk) is no error of idle work.
  const auto keep = [&](const schema::ToolSchema& tool) {
    const auto kept = session.Remember(plan, tool);
    if (kept.ok() && *kept != nullptr) ++report.kept_tools;
  };
  for (const schema::ToolSchema* tool : options.keep_tools) {
    if (tool == options.likely_tool || !session.can_remember()) continue;
    const Result<bool> decoded = decode(*tool);
    if (decoded.ok() && *decoded) keep(*tool);
    NEXUS_RETURN_IF_ERROR(session.TruncateTo(history.size()));
    if (decoded.ok() && !*decoded) return report;  // cancelled
  }
  if (options.likely_tool == nullptr) return report;
  // Last, because it stays in place.
  NEXUS_ASSIGN_OR_RETURN(report.tool_ready, decode(*options.likely_tool));
  if (report.tool_ready) keep(*options.likely_tool);
  return report;
}

}  // namespace nexus::engine
