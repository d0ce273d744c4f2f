// ArgumentReport: summaries of argument runs as JSON and as tables, and single
// failures to be read.
#ifndef NEXUS_EVAL_ARGUMENT_REPORT_H_
#define NEXUS_EVAL_ARGUMENT_REPORT_H_

#include <span>
#include <string>
#include <vector>

#include "nexus/base/json.h"
#include "nexus/eval/argument_summary.h"
#include "nexus/eval/report_table.h"

namespace nexus::eval {

// The fixed fields of docs/cli.md for one form, and what else is known of it.
Json ArgumentSummaryJson(const ArgumentSummary& summary);
Json ArgumentPairJson(const ArgumentPair& pair);
// What couldn't be used of the query file.
Json LeftOutJson(const ArgumentTasks& tasks);

// One row a form; the pairs; exact shares by group, one column a form (the
// forms must be of the same tasks).
TableRows ArgumentFormRows(std::span<const ArgumentSummary> summaries);
TableRows ArgumentPairRows(std::span<const ArgumentPair> pairs);
TableRows ArgumentGroupRows(std::span<const ArgumentSummary> summaries);

struct ArgumentFailure {
  std::string query_id;
  std::string query;
  std::string tool;
  ArgumentForm form = ArgumentForm::kIr;
  std::string expected;
  std::string got;
  std::vector<std::string> why;
};
// At most `count` of one form, spread over the queries.
std::vector<ArgumentFailure> ListFailures(
    std::span<const schema::ToolSchema> tools,
    std::span<const ArgumentTask> tasks, const ArgumentRun& run, int count);
Json ArgumentFailureJson(const ArgumentFailure& failure);

}  // namespace nexus::eval

#endif  // NEXUS_EVAL_ARGUMENT_REPORT_H_
