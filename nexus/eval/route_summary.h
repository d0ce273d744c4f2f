// RouteSummary: the trials of one pool size as figures with 95 % intervals.
//
// A query's trials over several pools aren't independent, so the bootstrap
// draws queries, each with all of its trials.
#ifndef NEXUS_EVAL_ROUTE_SUMMARY_H_
#define NEXUS_EVAL_ROUTE_SUMMARY_H_

#include <array>
#include <map>
#include <string>
#include <vector>

#include "nexus/base/bootstrap.h"
#include "nexus/eval/confidence.h"
#include "nexus/eval/route_study.h"

namespace nexus::eval {

// The protocol's: out-of-scope queries are 15 % of the traffic.
inline constexpr double kOutOfScopeTraffic = 0.15;

struct Rate {
  double value = 0;
  Interval ci95;
  int queries = 0;  // that it is about
};

struct RankingRates {
  Rate top1;
  Rate recall_at_5;
  Rate recall_at_20;
};

struct SignalRates {
  std::string name;  // "lead", "top score"
  double auroc = 0;
  double false_at_95_recall = 0;
  std::vector<CoveragePoint> curve;  // at the protocol's traffic
};

struct Percentiles {
  double p50 = 0;
  double p95 = 0;
};
// Of microseconds; zeros for none.
Percentiles PercentilesOf(std::vector<double> values);

struct RouteSummary {
  int size = 0;
  double pool_tools = 0;  // mean over trials in scope
  int queries = 0;        // in scope
  int trials = 0;         // in scope
  std::array<RankingRates, kRankingCount> rankings;

  // Outcomes of queries in scope. A re-ranked one may be routed in the end.
  Rate auto_share;
  // Of the routed: the tool is right, and no other was needed beside it.
  Rate auto_precision;
  // The same with the protocol's share of out-of-scope queries, where every
  // routed one is wrong. Needs some.
  double traffic_precision = 0;
  Rate reranked_share;
  Rate abstain_share;

  Rate false_route;           // out of scope and near-miss together
  Rate false_route_labelled;  // the file's own
  Rate false_route_near_miss;

  // The same three by the paper's margin rule, tau 0.0136: the baseline.
  Rate paper_share;
  Rate paper_precision;
  Rate paper_false_route;

  Rate complete_at_5;   // queries that need several tools
  Rate several_recall;  // at 5, of these
  Rate several_routed;  // one tool was taken where several are needed

  Rate write_first;  // of queries that ask for a tool that reads
  Rate write_routed;

  double tokens_all = 0;
  double tokens_bm25_top5 = 0;
  double tokens_chosen = 0;  // of the trials that were routed

  struct RuleCount {
    int trials = 0;
    int right = 0;
  };
  std::map<std::string, RuleCount> rules;  // in scope
  std::vector<SignalRates> signals;        // empty without out of scope
  std::map<int, double> top_score;         // percentile -> value, in scope

  Percentiles embed, scan, bm25, gate, rerank;
  int latency_queries = 0;
};

RouteSummary Summarize(const RouteStudy& study, const StudyPoint& point);

}  // namespace nexus::eval

#endif  // NEXUS_EVAL_ROUTE_SUMMARY_H_
