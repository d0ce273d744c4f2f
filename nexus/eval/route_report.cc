#include "nexus/eval/route_report.h"

#include <algorithm>
#include <set>
#include <utility>

#include "nexus/base/line_chart.h"
#include "nexus/eval/report_table.h"

namespace nexus::eval {
namespace {

Json CiJson(const Rate& rate) {
  return Json::array({rate.ci95.low, rate.ci95.high});
}

Json RateJson(const Rate& rate) {
  return {{"n", rate.queries}, {"value", rate.value}, {"ci95", CiJson(rate)}};
}

Json PercentilesJson(const Percentiles& us) {
  return {{"p50", us.p50}, {"p95", us.p95}};
}

bool Applies(const RouteStudy& study, size_t ranking) {
  const auto which = static_cast<Ranking>(ranking);
  return study.has_encoder || which == Ranking::kBm25 ||
         which == Ranking::kNexus;
}

const RankingRates& Nexus(const RouteSummary& summary) {
  return summary.rankings[static_cast<size_t>(Ranking::kNexus)];
}

Json PointJson(const RouteStudy& study, const RouteSummary& s) {
  Json point = {{"n", s.queries},
                {"tools", s.size},
                {"top1", Nexus(s).top1.value},
                {"recall_at_5", Nexus(s).recall_at_5.value},
                {"recall_at_20", Nexus(s).recall_at_20.value},
                {"auto_share", s.auto_share.value},
                {"auto_precision", s.auto_precision.value},
                {"reranked_share", s.reranked_share.value},
                {"abstain_share", s.abstain_share.value}};
  point["oos"] = {{"n", s.false_route.queries},
                  {"false_route", s.false_route.value},
                  {"ci95", CiJson(s.false_route)},
                  {"labelled", RateJson(s.false_route_labelled)},
                  {"near_miss", RateJson(s.false_route_near_miss)},
                  {"traffic_precision", s.traffic_precision}};
  if (study.has_encoder) {
    point["margin_rule"] = {{"tau", route::GateOptions().tau},
                            {"auto_share", s.paper_share.value},
                            {"auto_precision", s.paper_precision.value},
                            {"false_route", s.paper_false_route.value},
                            {"ci95",
                             {{"auto_share", CiJson(s.paper_share)},
                              {"auto_precision", CiJson(s.paper_precision)},
                              {"false_route", CiJson(s.paper_false_route)}}}};
  }
  for (const SignalRates& signal : s.signals) {
    Json curve = Json::array();
    for (const CoveragePoint& one : signal.curve) {
      curve.push_back({{"coverage", one.coverage},
                       {"risk", one.risk},
                       {"threshold", one.threshold}});
    }
    point["oos"]["signals"].push_back(
        {{"name", signal.name},
         {"auroc", signal.auroc},
         {"false_route_at_95_recall", signal.false_at_95_recall},
         {"risk_coverage", std::move(curve)}});
  }
  point["ci95"] = {{"top1", CiJson(Nexus(s).top1)},
                   {"recall_at_5", CiJson(Nexus(s).recall_at_5)},
                   {"auto_share", CiJson(s.auto_share)},
                   {"auto_precision", CiJson(s.auto_precision)},
                   {"reranked_share", CiJson(s.reranked_share)},
                   {"abstain_share", CiJson(s.abstain_share)}};
  point["latency_us"] = {
      {"n", s.latency_queries},          {"embed", PercentilesJson(s.embed)},
      {"scan", PercentilesJson(s.scan)}, {"bm25", PercentilesJson(s.bm25)},
      {"gate", PercentilesJson(s.gate)}, {"rerank", PercentilesJson(s.rerank)}};
  for (size_t r = 0; r < kRankingCount; ++r) {
    if (!Applies(study, r)) continue;
    const RankingRates& rates = s.rankings[r];
    point["rankings"].push_back(
        {{"name", std::string(kRankingNames[r])},
         {"top1", rates.top1.value},
         {"recall_at_5", rates.recall_at_5.value},
         {"recall_at_20", rates.recall_at_20.value},
         {"top1_ci95", CiJson(rates.top1)},
         {"recall_at_5_ci95", CiJson(rates.recall_at_5)}});
  }
  if (s.several_recall.queries > 0) {
    point["several_needed"] = {{"n", s.several_recall.queries},
                               {"recall_at_5", s.several_recall.value},
                               {"complete_at_5", s.complete_at_5.value},
                               {"routed_one", s.several_routed.value}};
  }
  point["write_for_read"] = {{"n", s.write_first.queries},
                             {"first", s.write_first.value},
                             {"routed", s.write_routed.value}};
  if (study.has_tokens) {
    point["tokens"] = {{"all_schemas", s.tokens_all},
                       {"bm25_top5", s.tokens_bm25_top5},
                       {"routed", s.tokens_chosen}};
  }
  for (const auto& [rule, count] : s.rules) {
    point["rules"][rule] = {{"trials", count.trials}, {"right", count.right}};
  }
  for (const auto& [percent, value] : s.top_score) {
    point["top_score"]["p" + std::to_string(percent)] = value;
  }
  return point;
}

std::string Cell(const Rate& rate) {
  if (rate.queries == 0) return "-";
  return FormatPercent(rate.value) + " [" + FormatPercent(rate.ci95.low) +
         ", " + FormatPercent(rate.ci95.high) + "]";
}

}  // namespace

Json ReportJson(const RouteStudy& study,
                const std::vector<RouteSummary>& summaries) {
  Json report = PointJson(study, summaries.back());
  report["pool"] = std::string(PoolKindName(study.pool));
  report["seeds"] = study.seeds;
  report["registry_tools"] = study.registry->tools().size();
  report["labels_unknown"] = study.labels.unknown.size();
  report["queries_left_out"] = study.labels.left_out;
  report["encoder"] = study.registry->encoder_fingerprint();
  report["warnings"] = study.warnings;
  if (summaries.size() > 1) {
    for (const RouteSummary& summary : summaries) {
      report["sweep"].push_back(PointJson(study, summary));
    }
  }
  return report;
}

std::string ReportMarkdown(const RouteStudy& study,
                           const std::vector<RouteSummary>& summaries,
                           const ReportText& text) {
  std::string out = "# " + text.title + "\n\n";
  for (const std::string& fact : text.facts) out += "- " + fact + "\n";
  for (const std::string& warning : study.warnings) {
    out += "- note: " + warning + "\n";
  }
  out += "\nIn per cent, with 95 % intervals over queries.\n\n## Ranking\n\n";
  std::vector<std::vector<std::string>> rows = {
      {"tools", "ranking", "top-1", "recall@5", "recall@20"}};
  for (const RouteSummary& s : summaries) {
    for (size_t r = 0; r < kRankingCount; ++r) {
      if (!Applies(study, r)) continue;
      rows.push_back({std::to_string(s.size), std::string(kRankingNames[r]),
                      Cell(s.rankings[r].top1), Cell(s.rankings[r].recall_at_5),
                      Cell(s.rankings[r].recall_at_20)});
    }
  }
  out += MarkdownTable(rows) + "## Gate\n\n";
  rows = {{"tools", "n", "auto-routed", "precision", "re-ranked", "abstained",
           "out of scope", "falsely routed", "precision in traffic"}};
  for (const RouteSummary& s : summaries) {
    rows.push_back(
        {std::to_string(s.size), std::to_string(s.queries), Cell(s.auto_share),
         s.auto_share.value > 0 ? Cell(s.auto_precision) : "-",
         FormatPercent(s.reranked_share.value),
         FormatPercent(s.abstain_share.value),
         std::to_string(s.false_route.queries), Cell(s.false_route),
         s.false_route.queries > 0 ? FormatPercent(s.traffic_precision) : "-"});
  }
  out += MarkdownTable(rows);
  if (study.has_encoder) {
    out += "## The paper's margin rule, tau " +
           FormatNumber("%.4f", static_cast<double>(route::GateOptions().tau)) +
           "\n\n";
    rows = {{"tools", "auto-routed", "precision", "falsely routed"}};
    for (const RouteSummary& s : summaries) {
      rows.push_back({std::to_string(s.size), Cell(s.paper_share),
                      s.paper_share.value > 0 ? Cell(s.paper_precision) : "-",
                      Cell(s.paper_false_route)});
    }
    out += MarkdownTable(rows);
  }
  if (!summaries.back().signals.empty()) {
    out += "## Knowing when not to answer\n\n";
    rows = {{"tools", "signal", "AUROC", "false routing at 95 % recall"}};
    for (const RouteSummary& s : summaries) {
      for (const SignalRates& signal : s.signals) {
        rows.push_back({std::to_string(s.size), signal.name,
                        FormatNumber("%.3f", signal.auroc),
                        FormatPercent(signal.false_at_95_recall)});
      }
    }
    out += MarkdownTable(rows);
  }
  out += "## Errors apart\n\n";
  rows = {{"tools", "several needed", "set recall@5", "complete@5",
           "one was routed", "read wanted", "write first", "write routed"}};
  for (const RouteSummary& s : summaries) {
    rows.push_back(
        {std::to_string(s.size), std::to_string(s.several_recall.queries),
         Cell(s.several_recall), Cell(s.complete_at_5), Cell(s.several_routed),
         std::to_string(s.write_first.queries), Cell(s.write_first),
         Cell(s.write_routed)});
  }
  out += MarkdownTable(rows) + "## Cost\n\n";
  rows = {{"tools", "embed us", "scan us", "BM25 us", "gate us", "re-rank us",
           "tokens, all", "BM25 top 5", "routed"}};
  for (const RouteSummary& s : summaries) {
    const auto us = [](const Percentiles& one) {
      return FormatNumber("%.0f", one.p50) + " / " +
             FormatNumber("%.0f", one.p95);
    };
    const auto tokens = [&](double count) {
      return study.has_tokens ? FormatNumber("%.0f", count) : std::string("-");
    };
    const bool overflows =
        text.context_tokens > 0 && s.tokens_all > text.context_tokens;
    rows.push_back({std::to_string(s.size), us(s.embed), us(s.scan), us(s.bm25),
                    us(s.gate), study.has_reranker ? us(s.rerank) : "-",
                    tokens(s.tokens_all) + (overflows ? " (overflows)" : ""),
                    tokens(s.tokens_bm25_top5), tokens(s.tokens_chosen)});
  }
  return out + MarkdownTable(rows) + "Latency is p50 / p95 of " +
         std::to_string(summaries.back().latency_queries) +
         " uncached calls a row.\n";
}

std::string ReportSvg(const RouteStudy& study,
                      const std::vector<RouteSummary>& summaries,
                      const std::string& title) {
  ChartPanel sweep;
  sweep.title = "Top-1 over the number of tools";
  sweep.x_label = "tools";
  sweep.y_label = "top-1, per cent";
  sweep.log_x = true;
  for (size_t r = 0; r < kRankingCount; ++r) {
    if (!Applies(study, r)) continue;
    ChartSeries series;
    series.name = std::string(kRankingNames[r]);
    for (const RouteSummary& s : summaries) {
      const Rate& rate = s.rankings[r].top1;
      series.points.emplace_back(s.size, 100 * rate.value);
      series.intervals.emplace_back(100 * rate.ci95.low, 100 * rate.ci95.high);
    }
    sweep.series.push_back(std::move(series));
  }
  ChartPanel risk;
  risk.title =
      "Risk over coverage, " + std::to_string(summaries.back().size) + " tools";
  risk.x_label = "answered, per cent of traffic";
  risk.y_label = "wrong, per cent of answered";
  for (const SignalRates& signal : summaries.back().signals) {
    ChartSeries series;
    series.name = signal.name;
    for (const CoveragePoint& point : signal.curve) {
      series.points.emplace_back(100 * point.coverage, 100 * point.risk);
    }
    risk.series.push_back(std::move(series));
  }
  const std::vector<ChartPanel> panels = {sweep, risk};
  return RenderSvg(title, panels);
}

std::vector<Miss> ListMisses(const RouteStudy& study, int count) {
  std::vector<Miss> all;
  std::set<int> seen;
  for (const RouteTrial& trial : study.points.back().trials) {
    const auto query = static_cast<size_t>(trial.query);
    const Gold& gold = study.labels.gold[query];
    const bool routed = trial.outcome == route::Outcome::kRoute;
    Miss miss;
    if (trial.kind != QueryKind::kInScope) {
      if (routed) {
        miss.kind = trial.kind == QueryKind::kNearMiss ? "near-miss routed"
                                                       : "routed out of scope";
      }
    } else if (!gold.IsRight(trial.chosen)) {
      miss.kind = routed ? "wrong tool routed" : "wrong tool first";
    } else if (routed && gold.several_needed()) {
      miss.kind = "several needed, one routed";
    }
    if (miss.kind.empty() || !seen.insert(trial.query).second) continue;
    miss.query = study.labels.queries[query].text;
    miss.gold = study.labels.queries[query].gold;
    if (trial.chosen >= 0) {
      miss.chosen = schema::ToolId(study.registry->tool(trial.chosen));
    }
    miss.margin = trial.margin;
    miss.rule = trial.rule;
    miss.outcome = std::string(route::OutcomeName(trial.outcome));
    all.push_back(std::move(miss));
  }
  const auto wanted = static_cast<size_t>(std::max(count, 0));
  if (all.size() <= wanted) return all;
  std::vector<Miss> spread;
  for (size_t i = 0; i < wanted; ++i) {
    spread.push_back(std::move(all[i * all.size() / wanted]));
  }
  return spread;
}

}  // namespace nexus::eval
