// ArgumentSummary: trials judged against their labels, and what comes of them:
// rates with intervals, splits by kind of argument, and forms compared in pairs
// on the same queries.
#ifndef NEXUS_EVAL_ARGUMENT_SUMMARY_H_
#define NEXUS_EVAL_ARGUMENT_SUMMARY_H_

#include <map>
#include <span>
#include <string>
#include <vector>

#include "nexus/base/bootstrap.h"
#include "nexus/eval/argument_tasks.h"
#include "nexus/eval/argument_trial.h"
#include "nexus/eval/route_summary.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::eval {

// One form over the tasks: trials[i] is of tasks[i].
struct ArgumentRun {
  ArgumentForm form = ArgumentForm::kIr;
  std::vector<ArgumentTrial> trials;
};

struct ArgumentVerdict {
  bool json_valid = false;  // an object
  ArgMatch match;           // faults also where there is no object

  bool exact() const { return json_valid && match.exact(); }
};
ArgumentVerdict JudgeTrial(const ArgumentTask& task, const ArgumentTrial& trial,
                           const schema::ToolSchema& tool);

struct ArgumentGroup {
  std::string name;  // "enum", "part live_simple", ...
  int n = 0;
  int exact = 0;
  Interval ci95;  // of the share
};

struct ArgumentSummary {
  ArgumentForm form = ArgumentForm::kIr;
  int n = 0;
  int json_valid = 0;
  int schema_valid = 0;  // after the repair round
  int repaired = 0;      // took the repair round, whatever came of it
  int refused = 0;       // no call: the prompt didn't fit, ...
  int exact = 0;
  Interval exact_ci95;
  double prompt_tokens_mean = 0;
  double tool_tokens_mean = 0;
  Percentiles ttft_ms;
  int invented_optional = 0;  // arguments, not queries
  std::map<std::string, int> tiers;
  std::vector<ArgumentGroup> groups;  // kinds of argument, then parts
  std::map<std::string, int> refusals;
};
ArgumentSummary SummarizeRun(std::span<const schema::ToolSchema> tools,
                             std::span<const ArgumentTask> tasks,
                             const ArgumentRun& run);

// `second` against `first`, on the same queries.
struct ArgumentPair {
  ArgumentForm first = ArgumentForm::kSchemaText;
  ArgumentForm second = ArgumentForm::kIr;
  int n = 0;
  int only_first = 0;  // exact with the first form only
  int only_second = 0;
  int same_call = 0;      // the same arguments, right or wrong
  double difference = 0;  // of exact shares, second less first
  Interval ci95;          // by bootstrap over queries
  double mcnemar_p = 1;   // exact, two-sided
};
ArgumentPair CompareRuns(std::span<const schema::ToolSchema> tools,
                         std::span<const ArgumentTask> tasks,
                         const ArgumentRun& first, const ArgumentRun& second);

}  // namespace nexus::eval

#endif  // NEXUS_EVAL_ARGUMENT_SUMMARY_H_
