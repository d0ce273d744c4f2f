#include "nexus/cli/ask_audit.h"

#include <cstdio>
#include <string>

#include "nexus/cli/terminal.h"

namespace nexus::cli {

Json AuditAnswer(const engine::Engine& engine,
                 const engine::AuditRequest& request, bool show) {
  const auto report = engine::AuditSplice(engine, request);
  if (!report.ok()) {
    Note("no audit: " + report.status().message());
    return {{"error", report.status().ToString()}};
  }
  if (show) {
    const std::string text =
        (report->broke_budget ? "demoted: " : "kept: ") + report->verdict;
    std::printf("%s %s\n", Styled("audit   ", Style::kDim).c_str(),
                Styled(text, report->broke_budget ? Style::kBad : Style::kGood)
                    .c_str());
  }
  return engine::AuditToJson(*report);
}

}  // namespace nexus::cli
