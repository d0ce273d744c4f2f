#include "nexus/engine/e2e_summary.h"

#include <algorithm>
#include <utility>

#include "nexus/base/paired_stats.h"

namespace nexus::engine {
namespace {

E2eRate RateOf(const std::vector<double>& samples) {
  E2eRate rate;
  rate.n = static_cast<int>(samples.size());
  for (const double sample : samples) rate.value += sample;
  rate.value /= std::max(1, rate.n);
  rate.ci95 = BootstrapMean(samples);
  return rate;
}

// What one arm did with each query; null: it abstained.
E2eArm ArmOf(std::string name, const std::vector<const E2eCall*>& calls) {
  E2eArm arm;
  arm.name = std::move(name);
  std::vector<double> tool;
  std::vector<double> arguments;
  std::vector<double> both;
  std::vector<double> ttft;
  int asked = 0;
  for (const E2eCall* call : calls) {
    const bool right = call != nullptr && call->tool_right;
    const bool exact = call != nullptr && call->exact;
    tool.push_back(right ? 1 : 0);
    both.push_back(exact ? 1 : 0);
    if (right) arguments.push_back(exact ? 1 : 0);
    if (call == nullptr) continue;
    ++asked;
    arm.prompt_tokens_mean += call->trial.prompt_tokens;
    if (!call->trial.refused) ttft.push_back(call->trial.ttft_ms);
  }
  arm.tool = RateOf(tool);
  arm.arguments = RateOf(arguments);
  arm.both = RateOf(both);
  arm.prompt_tokens_mean /= std::max(1, asked);
  arm.ttft_ms = eval::PercentilesOf(std::move(ttft));
  return arm;
}

Json RateJson(const E2eRate& rate) {
  return {{"n", rate.n},
          {"value", rate.value},
          {"ci95", {rate.ci95.low, rate.ci95.high}}};
}

std::string Cell(const E2eRate& rate) {
  if (rate.n == 0) return "-";
  return eval::FormatPercent(rate.value) + " [" +
         eval::FormatPercent(rate.ci95.low) + ", " +
         eval::FormatPercent(rate.ci95.high) + "]";
}

}  // namespace

E2eSummary SummarizeE2e(const E2eStudy& study) {
  E2eSummary summary;
  summary.n = static_cast<int>(study.trials.size());
  const double count = std::max(1, summary.n);
  std::vector<double> routed;
  for (const E2eTrial& trial : study.trials) {
    routed.push_back(trial.outcome == route::Outcome::kRoute ? 1 : 0);
    summary.abstain_share += trial.chosen < 0 ? 1 / count : 0;
    summary.list_tokens_mean += trial.list_tokens / count;
    summary.list_fits_share += trial.list_fits ? 1 / count : 0;
    summary.pool_tools = std::max(summary.pool_tools, trial.pool_tools);
  }
  summary.auto_share = RateOf(routed);
  for (size_t form = 0; form < study.forms.size(); ++form) {
    const std::string name(eval::ArgumentFormName(study.forms[form]));
    std::vector<const E2eCall*> calls;
    std::vector<double> auto_both;
    std::vector<double> differences;
    E2ePair pair;
    pair.routed = name;
    int only_routed = 0;
    int only_list = 0;
    for (const E2eTrial& trial : study.trials) {
      calls.push_back(trial.calls.empty() ? nullptr : &trial.calls[form]);
      const bool exact = calls.back() != nullptr && calls.back()->exact;
      if (trial.outcome == route::Outcome::kRoute) {
        auto_both.push_back(exact ? 1 : 0);
      }
      if (!trial.list.has_value()) continue;
      only_routed += exact && !trial.list->exact ? 1 : 0;
      only_list += trial.list->exact && !exact ? 1 : 0;
      differences.push_back((exact ? 1.0 : 0.0) -
                            (trial.list->exact ? 1.0 : 0.0));
    }
    summary.arms.push_back(ArmOf("routed, " + name, calls));
    summary.auto_both.push_back(RateOf(auto_both));
    if (differences.empty()) continue;
    const E2eRate difference = RateOf(differences);
    pair.n = difference.n;
    pair.difference = difference.value;
    pair.ci95 = difference.ci95;
    pair.mcnemar_p = McNemarExact(only_list, only_routed);
    summary.pairs.push_back(std::move(pair));
  }
  std::vector<const E2eCall*> listed;
  for (const E2eTrial& trial : study.trials) {
    if (trial.list.has_value()) listed.push_back(&*trial.list);
  }
  if (!listed.empty()) summary.arms.push_back(ArmOf("all schemas", listed));
  return summary;
}

Json E2eJson(const E2eStudy& study, const E2eSummary& summary) {
  Json json = {{"n", summary.n},
               {"tools", summary.pool_tools},
               {"registry_tools", study.registry_tools},
               {"auto_share", RateJson(summary.auto_share)},
               {"abstain_share", summary.abstain_share}};
  for (size_t i = 0; i < summary.arms.size(); ++i) {
    const E2eArm& arm = summary.arms[i];
    Json one = {
        {"tool", RateJson(arm.tool)},
        {"arguments", RateJson(arm.arguments)},
        {"both", RateJson(arm.both)},
        {"prompt_tokens_mean", arm.prompt_tokens_mean},
        {"ttft_ms", {{"p50", arm.ttft_ms.p50}, {"p95", arm.ttft_ms.p95}}}};
    if (i < study.forms.size()) {
      one["auto_both"] = RateJson(summary.auto_both[i]);
      json["routed"][std::string(eval::ArgumentFormName(study.forms[i]))] =
          std::move(one);
    } else {
      json["all_schemas"] = std::move(one);
    }
  }
  Json& all = json["all_schemas"];
  all["list_tokens_mean"] = summary.list_tokens_mean;
  all["fits_share"] = summary.list_fits_share;
  all["context_tokens"] = study.context_tokens;
  all["schema_tokens_mean"] = study.schema_tokens_mean;
  all["overflow_tools"] = study.overflow_tools;
  for (const E2ePair& pair : summary.pairs) {
    json["pairs"].push_back({{"routed", pair.routed},
                             {"n", pair.n},
                             {"difference", pair.difference},
                             {"ci95", {pair.ci95.low, pair.ci95.high}},
                             {"mcnemar_p", pair.mcnemar_p}});
  }
  json["warnings"] = study.warnings;
  return json;
}

eval::TableRows E2eRows(const E2eStudy& study, const E2eSummary& summary) {
  eval::TableRows rows = {{"way", "n", "tool right", "arguments exact of these",
                           "both", "both, auto-routed", "prompt tokens",
                           "TTFT ms p50 / p95"}};
  for (size_t i = 0; i < summary.arms.size(); ++i) {
    const E2eArm& arm = summary.arms[i];
    rows.push_back({arm.name, std::to_string(arm.tool.n), Cell(arm.tool),
                    Cell(arm.arguments), Cell(arm.both),
                    i < study.forms.size() ? Cell(summary.auto_both[i]) : "-",
                    eval::FormatNumber("%.0f", arm.prompt_tokens_mean),
                    eval::FormatNumber("%.0f", arm.ttft_ms.p50) + " / " +
                        eval::FormatNumber("%.0f", arm.ttft_ms.p95)});
  }
  return rows;
}

}  // namespace nexus::engine
