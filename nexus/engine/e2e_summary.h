// E2eSummary: how often tool, arguments and both are right, with the router in
// front and with all schemas in the prompt.
#ifndef NEXUS_ENGINE_E2E_SUMMARY_H_
#define NEXUS_ENGINE_E2E_SUMMARY_H_

#include <string>
#include <vector>

#include "nexus/base/bootstrap.h"
#include "nexus/base/json.h"
#include "nexus/engine/e2e_study.h"
#include "nexus/eval/report_table.h"
#include "nexus/eval/route_summary.h"

namespace nexus::engine {

struct E2eRate {
  int n = 0;
  double value = 0;
  Interval ci95;
};

// One way to a call: a form behind the router, or the list.
struct E2eArm {
  std::string name;   // "routed, ir", "all schemas"
  E2eRate tool;       // of all queries; an abstention is wrong
  E2eRate arguments;  // of those whose tool is right
  E2eRate both;       // of all queries
  double prompt_tokens_mean = 0;
  eval::Percentiles ttft_ms;  // the router's time isn't in it
};

// The list against one routed form, on the queries that both answered.
struct E2ePair {
  std::string routed;
  int n = 0;
  double difference = 0;  // of both right, routed less list
  Interval ci95;
  double mcnemar_p = 1;
};

struct E2eSummary {
  int n = 0;
  int pool_tools = 0;
  E2eRate auto_share;  // the outcome is `route`
  double abstain_share = 0;
  std::vector<E2eArm> arms;
  // Of the queries that were auto-routed, both right: [form].
  std::vector<E2eRate> auto_both;
  double list_tokens_mean = 0;
  double list_fits_share = 0;
  std::vector<E2ePair> pairs;
};
E2eSummary SummarizeE2e(const E2eStudy& study);

Json E2eJson(const E2eStudy& study, const E2eSummary& summary);
eval::TableRows E2eRows(const E2eStudy& study, const E2eSummary& summary);

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_E2E_SUMMARY_H_
