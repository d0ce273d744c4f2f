#include "nexus/cli/ask_audit.h"

#include <cstdlib>
#include <string>

#include "nexus/cli/terminal.h"
#include "nexus/engine/audit.h"

namespace nexus::cli {

bool IsAuditDue(const engine::Engine& engine, const engine::AskResult& result,
                int every) {
  if (every <= 0 || engine.store() == nullptr ||
      result.tier.tier != engine::Tier::kSplice ||
      result.tier.shared_history > 0) {
    return false;
  }
  constexpr const char* kCounter = "answers-since-audit";
  const auto text = engine.store()->GetSetting(kCounter);
  const int count = (text.ok() ? std::atoi(text->c_str()) : 0) + 1;
  const bool due = count >= every;
  // A store that can't count (full disk) audits now rather than never.
  const Status kept =
      engine.store()->PutSetting(kCounter, std::to_string(due ? 0 : count));
  return due || !kept.ok();
}

Json AuditAnswer(const engine::Engine& engine, const engine::AskResult& result,
                 const std::vector<llm::Token>& generated,
                 const engine::PrepareOptions& prepare, bool show) {
  const auto fail = [](const Status& status) -> Json {
    Note("no audit: " + status.message());
    return {{"error", status.ToString()}};
  };
  engine::AuditRequest request;
  request.plan = &result.plan;
  request.generated = generated;
  request.prepare = prepare;
  const auto report = engine::AuditSplice(engine, request);
  if (!report.ok()) return fail(report.status());
  if (show) {
    const std::string text =
        (report->broke_budget ? "demoted: " : "kept: ") + report->verdict;
    std::printf("%s %s\n", Styled("audit   ", Style::kDim).c_str(),
                Styled(text, report->broke_budget ? Style::kBad : Style::kGood)
                    .c_str());
  }
  return {{"kl_mean", report->kl_mean},
          {"top1", report->top1},
          {"positions", report->positions},
          {"demoted", report->broke_budget},
          {"verdict", report->verdict}};
}

}  // namespace nexus::cli
