#include "nexus/eval/argument_summary.h"

#include <algorithm>
#include <utility>

#include "nexus/base/check.h"
#include "nexus/base/paired_stats.h"

namespace nexus::eval {
namespace {

const schema::ToolSchema& ToolOf(std::span<const schema::ToolSchema> tools,
                                 const ArgumentTask& task) {
  return tools[static_cast<size_t>(task.tool)];
}

std::vector<double> ExactOf(std::span<const schema::ToolSchema> tools,
                            std::span<const ArgumentTask> tasks,
                            const ArgumentRun& run) {
  std::vector<double> exact;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const ArgumentVerdict verdict =
        JudgeTrial(tasks[i], run.trials[i], ToolOf(tools, tasks[i]));
    exact.push_back(verdict.exact() ? 1 : 0);
  }
  return exact;
}

// The groups that a task counts in. A query may count in several kinds.
std::vector<std::string> GroupsOf(const ArgumentTask& task) {
  std::vector<std::string> groups;
  const ArgClasses& classes = task.classes;
  if (classes.enumeration) groups.emplace_back("enum");
  if (classes.object) groups.emplace_back("nested object");
  if (classes.array) groups.emplace_back("array");
  groups.emplace_back(classes.optional ? "has optional" : "no optional");
  if (!classes.enumeration && !classes.object && !classes.array) {
    groups.emplace_back("plain values");
  }
  std::string part = task.query.set;
  if (!part.empty() && !task.query.part.empty()) part += " ";
  part += task.query.part;
  if (!part.empty()) groups.push_back(std::move(part));
  return groups;
}

std::vector<ArgumentGroup> MakeGroups(std::span<const ArgumentTask> tasks,
                                      std::span<const double> exact) {
  std::map<std::string, std::vector<double>> by_name;
  for (size_t i = 0; i < tasks.size(); ++i) {
    for (const std::string& name : GroupsOf(tasks[i])) {
      by_name[name].push_back(exact[i]);
    }
  }
  std::vector<ArgumentGroup> groups;
  const auto take = [&](const std::string& name) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) return;
    ArgumentGroup group;
    group.name = name;
    group.n = static_cast<int>(found->second.size());
    for (const double one : found->second) group.exact += one > 0 ? 1 : 0;
    group.ci95 = BootstrapMean(found->second);
    groups.push_back(std::move(group));
    by_name.erase(found);
  };
  for (const char* kind : {"plain values", "enum", "nested object", "array",
                           "has optional", "no optional"}) {
    take(kind);
  }
  while (!by_name.empty()) take(std::string(by_name.begin()->first));
  return groups;
}

}  // namespace

ArgumentVerdict JudgeTrial(const ArgumentTask& task, const ArgumentTrial& trial,
                           const schema::ToolSchema& tool) {
  ArgumentVerdict verdict;
  verdict.json_valid = trial.arguments.is_object();
  verdict.match = MatchArguments(trial.arguments, task.accepted(),
                                 tool.parameters, task.query.object_labels);
  return verdict;
}

ArgumentSummary SummarizeRun(std::span<const schema::ToolSchema> tools,
                             std::span<const ArgumentTask> tasks,
                             const ArgumentRun& run) {
  NEXUS_CHECK(run.trials.size() == tasks.size());
  ArgumentSummary summary;
  summary.form = run.form;
  summary.n = static_cast<int>(tasks.size());
  std::vector<double> exact;
  std::vector<double> ttft;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const ArgumentTrial& trial = run.trials[i];
    const ArgumentVerdict verdict =
        JudgeTrial(tasks[i], trial, ToolOf(tools, tasks[i]));
    exact.push_back(verdict.exact() ? 1 : 0);
    summary.exact += verdict.exact() ? 1 : 0;
    summary.json_valid += verdict.json_valid ? 1 : 0;
    summary.schema_valid += trial.schema_valid ? 1 : 0;
    summary.repaired += trial.repair_rounds > 0 ? 1 : 0;
    summary.invented_optional += verdict.match.invented_optional;
    summary.prompt_tokens_mean += trial.prompt_tokens;
    summary.tool_tokens_mean += trial.tool_tokens;
    if (trial.refused) {
      ++summary.refused;
      ++summary.refusals[trial.invalid_reason];
      continue;
    }
    ttft.push_back(trial.ttft_ms);
    ++summary.tiers[trial.tier];
  }
  const double count = std::max(1, summary.n);
  summary.prompt_tokens_mean /= count;
  summary.tool_tokens_mean /= count;
  summary.ttft_ms = PercentilesOf(std::move(ttft));
  summary.exact_ci95 = BootstrapMean(exact);
  summary.groups = MakeGroups(tasks, exact);
  return summary;
}

ArgumentPair CompareRuns(std::span<const schema::ToolSchema> tools,
                         std::span<const ArgumentTask> tasks,
                         const ArgumentRun& first, const ArgumentRun& second) {
  NEXUS_CHECK(first.trials.size() == tasks.size() &&
              second.trials.size() == tasks.size());
  ArgumentPair pair;
  pair.first = first.form;
  pair.second = second.form;
  pair.n = static_cast<int>(tasks.size());
  const std::vector<double> a = ExactOf(tools, tasks, first);
  const std::vector<double> b = ExactOf(tools, tasks, second);
  std::vector<double> differences;
  for (size_t i = 0; i < tasks.size(); ++i) {
    differences.push_back(b[i] - a[i]);
    pair.only_first += a[i] > b[i] ? 1 : 0;
    pair.only_second += b[i] > a[i] ? 1 : 0;
    pair.same_call +=
        first.trials[i].arguments == second.trials[i].arguments ? 1 : 0;
    pair.difference += differences.back();
  }
  pair.difference /= std::max(1, pair.n);
  pair.ci95 = BootstrapMean(differences);
  pair.mcnemar_p = McNemarExact(pair.only_first, pair.only_second);
  return pair;
}

}  // namespace nexus::eval
