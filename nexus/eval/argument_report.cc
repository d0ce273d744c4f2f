#include "nexus/eval/argument_report.h"

#include <algorithm>
#include <utility>

#include "nexus/base/paired_stats.h"

namespace nexus::eval {
namespace {

Json CiJson(const Interval& interval) {
  return Json::array({interval.low, interval.high});
}

std::string ShareCell(int count, int total, const Interval& ci95) {
  if (total == 0) return "-";
  return FormatPercent(Share(count, total)) + " [" + FormatPercent(ci95.low) +
         ", " + FormatPercent(ci95.high) + "]";
}

std::string Tiers(const ArgumentSummary& summary) {
  std::string text;
  for (const auto& [tier, count] : summary.tiers) {
    text += (text.empty() ? "" : ", ") + tier + " " + std::to_string(count);
  }
  return text.empty() ? "-" : text;
}

}  // namespace

Json ArgumentSummaryJson(const ArgumentSummary& summary) {
  Json json = {{"n", summary.n},
               {"json_valid", Share(summary.json_valid, summary.n)},
               {"exact", Share(summary.exact, summary.n)},
               {"prompt_tokens_mean", summary.prompt_tokens_mean},
               {"ttft_ms_p50", summary.ttft_ms.p50},
               {"invented_optional", summary.invented_optional},
               {"mode", ArgumentFormName(summary.form)},
               {"ci95", {{"exact", CiJson(summary.exact_ci95)}}},
               {"schema_valid", Share(summary.schema_valid, summary.n)},
               {"repaired", summary.repaired},
               {"refused", summary.refused},
               {"tool_tokens_mean", summary.tool_tokens_mean},
               {"ttft_ms_p95", summary.ttft_ms.p95},
               {"tiers", summary.tiers},
               {"refusals", summary.refusals}};
  Json groups = Json::array();
  for (const ArgumentGroup& group : summary.groups) {
    groups.push_back({{"name", group.name},
                      {"n", group.n},
                      {"exact", Share(group.exact, group.n)},
                      {"ci95", CiJson(group.ci95)}});
  }
  json["groups"] = std::move(groups);
  return json;
}

Json ArgumentPairJson(const ArgumentPair& pair) {
  return {{"first", ArgumentFormName(pair.first)},
          {"second", ArgumentFormName(pair.second)},
          {"n", pair.n},
          {"difference", pair.difference},
          {"ci95", CiJson(pair.ci95)},
          {"only_first", pair.only_first},
          {"only_second", pair.only_second},
          {"same_call", Share(pair.same_call, pair.n)},
          {"mcnemar_p", pair.mcnemar_p}};
}

Json LeftOutJson(const ArgumentTasks& tasks) {
  return {{"without_calls", tasks.without_calls},
          {"several_calls", tasks.several_calls},
          {"unknown_tools", tasks.unknown_tools},
          {"foreign_arguments", tasks.foreign_arguments},
          {"nothing_accepted", tasks.nothing_accepted}};
}

TableRows ArgumentFormRows(std::span<const ArgumentSummary> summaries) {
  TableRows rows = {{"prompt has", "n", "exact", "JSON valid", "schema valid",
                     "repaired", "invented optional", "prompt tokens",
                     "of these tool", "TTFT ms p50 / p95", "tier"}};
  for (const ArgumentSummary& s : summaries) {
    rows.push_back({std::string(ArgumentFormName(s.form)), std::to_string(s.n),
                    ShareCell(s.exact, s.n, s.exact_ci95),
                    FormatPercent(Share(s.json_valid, s.n)),
                    FormatPercent(Share(s.schema_valid, s.n)),
                    std::to_string(s.repaired),
                    std::to_string(s.invented_optional),
                    FormatNumber("%.0f", s.prompt_tokens_mean),
                    FormatNumber("%.0f", s.tool_tokens_mean),
                    FormatNumber("%.0f", s.ttft_ms.p50) + " / " +
                        FormatNumber("%.0f", s.ttft_ms.p95),
                    Tiers(s)});
  }
  return rows;
}

TableRows ArgumentPairRows(std::span<const ArgumentPair> pairs) {
  TableRows rows = {{"pair", "n", "difference, points", "only the former exact",
                     "only the latter", "same call", "McNemar p"}};
  for (const ArgumentPair& pair : pairs) {
    rows.push_back({std::string(ArgumentFormName(pair.second)) + " less " +
                        std::string(ArgumentFormName(pair.first)),
                    std::to_string(pair.n),
                    FormatNumber("%+.1f", 100 * pair.difference) + " [" +
                        FormatNumber("%+.1f", 100 * pair.ci95.low) + ", " +
                        FormatNumber("%+.1f", 100 * pair.ci95.high) + "]",
                    std::to_string(pair.only_second),
                    std::to_string(pair.only_first),
                    FormatPercent(Share(pair.same_call, pair.n)),
                    FormatNumber("%.3f", pair.mcnemar_p)});
  }
  return rows;
}

TableRows ArgumentGroupRows(std::span<const ArgumentSummary> summaries) {
  TableRows rows = {{"queries with", "n"}};
  if (summaries.empty()) return rows;
  for (const ArgumentSummary& s : summaries) {
    rows.front().emplace_back(ArgumentFormName(s.form));
  }
  for (size_t i = 0; i < summaries.front().groups.size(); ++i) {
    const ArgumentGroup& group = summaries.front().groups[i];
    std::vector<std::string> row = {group.name, std::to_string(group.n)};
    for (const ArgumentSummary& s : summaries) {
      row.push_back(
          ShareCell(s.groups[i].exact, s.groups[i].n, s.groups[i].ci95));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<ArgumentFailure> ListFailures(
    std::span<const schema::ToolSchema> tools,
    std::span<const ArgumentTask> tasks, const ArgumentRun& run, int count) {
  std::vector<ArgumentFailure> all;
  for (size_t i = 0; i < tasks.size(); ++i) {
    const ArgumentTask& task = tasks[i];
    const ArgumentTrial& trial = run.trials[i];
    const schema::ToolSchema& tool = tools[static_cast<size_t>(task.tool)];
    ArgumentVerdict verdict = JudgeTrial(task, trial, tool);
    if (verdict.exact()) continue;
    ArgumentFailure failure;
    failure.query_id = task.query.id;
    failure.query = task.query.text;
    failure.tool = schema::ToolId(tool);
    failure.form = run.form;
    failure.expected = DumpJson(task.accepted());
    failure.got = DumpJson(trial.arguments);
    failure.why = std::move(verdict.match.faults);
    if (!trial.invalid_reason.empty()) {
      failure.why.push_back(trial.invalid_reason);
    }
    all.push_back(std::move(failure));
  }
  const auto wanted = static_cast<size_t>(std::max(count, 0));
  if (all.size() <= wanted) return all;
  std::vector<ArgumentFailure> spread;
  for (size_t i = 0; i < wanted; ++i) {
    spread.push_back(std::move(all[i * all.size() / wanted]));
  }
  return spread;
}

Json ArgumentFailureJson(const ArgumentFailure& failure) {
  return {{"id", failure.query_id},
          {"query", failure.query},
          {"tool", failure.tool},
          {"mode", ArgumentFormName(failure.form)},
          {"expected", failure.expected},
          {"got", failure.got},
          {"why", failure.why}};
}

}  // namespace nexus::eval
