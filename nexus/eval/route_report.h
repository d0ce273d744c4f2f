// RouteReport: a study as JSON, Markdown and pictures.
#ifndef NEXUS_EVAL_ROUTE_REPORT_H_
#define NEXUS_EVAL_ROUTE_REPORT_H_

#include <string>
#include <vector>

#include "nexus/base/json.h"
#include "nexus/eval/route_summary.h"

namespace nexus::eval {

// The fixed fields of docs/cli.md for the last (largest) point, and all points
// under "sweep" when there are several.
Json ReportJson(const RouteStudy& study,
                const std::vector<RouteSummary>& summaries);

struct ReportText {
  std::string title;
  std::vector<std::string> facts;  // one line each: files, encoder, tau, ...
  int context_tokens = 0;          // where all schemas overflow; 0: not asked
};
// Tables in Markdown, which a terminal shows as well.
std::string ReportMarkdown(const RouteStudy& study,
                           const std::vector<RouteSummary>& summaries,
                           const ReportText& text);

// The sweep with intervals, and risk over coverage, side by side.
std::string ReportSvg(const RouteStudy& study,
                      const std::vector<RouteSummary>& summaries,
                      const std::string& title);

struct Miss {
  std::string query;
  std::string kind;  // "wrong tool", "routed out of scope", ...
  std::vector<std::string> gold;
  std::string chosen;
  float margin = 0;
  std::string rule;
  std::string outcome;
};
// Real misses of the last point for reading, one a query, at most `count`,
// spread over the queries.
std::vector<Miss> ListMisses(const RouteStudy& study, int count);

}  // namespace nexus::eval

#endif  // NEXUS_EVAL_ROUTE_REPORT_H_
