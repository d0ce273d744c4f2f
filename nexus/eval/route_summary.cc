#include "nexus/eval/route_summary.h"

#include <algorithm>
#include <functional>

namespace nexus::eval {
namespace {

constexpr int kCurvePoints = 20;

bool IsRouted(const RouteTrial& trial) {
  return trial.outcome == route::Outcome::kRoute;
}

// Sums by query, then the ratio and its interval over queries.
class RateOf {
 public:
  void Add(const RouteTrial& trial, double part, double whole = 1) {
    RatioSample& sample = samples_[trial.query];
    sample.part += part;
    sample.whole += whole;
  }
  Rate Get() const {
    std::vector<RatioSample> samples;
    Rate rate;
    for (const auto& [query, sample] : samples_) {
      samples.push_back(sample);
      rate.queries += sample.whole > 0;
    }
    rate.value = Ratio(samples);
    rate.ci95 = BootstrapRatio(samples);
    return rate;
  }

 private:
  std::map<int, RatioSample> samples_;
};

Rate Gather(const std::vector<const RouteTrial*>& trials,
            const std::function<double(const RouteTrial&)>& part) {
  RateOf rate;
  for (const RouteTrial* trial : trials) rate.Add(*trial, part(*trial));
  return rate.Get();
}

double MeanOf(const std::vector<const RouteTrial*>& trials,
              int RouteTrial::*field) {
  double sum = 0;
  for (const RouteTrial* trial : trials) sum += trial->*field;
  return trials.empty() ? 0 : sum / static_cast<double>(trials.size());
}

SignalRates RateSignal(std::string name,
                       const std::vector<const RouteTrial*>& in_scope,
                       const std::vector<const RouteTrial*>& outside,
                       const std::function<bool(const RouteTrial&)>& right,
                       float RouteTrial::*signal) {
  SignalRates rates;
  rates.name = std::move(name);
  std::vector<double> positive;
  std::vector<double> negative;
  std::vector<ScoredDecision> decisions;
  const double weight =
      kOutOfScopeTraffic / (1 - kOutOfScopeTraffic) *
      static_cast<double>(in_scope.size()) /
      static_cast<double>(std::max<size_t>(outside.size(), 1));
  for (const RouteTrial* trial : in_scope) {
    positive.push_back(static_cast<double>(trial->*signal));
    decisions.push_back({positive.back(), 1, right(*trial)});
  }
  for (const RouteTrial* trial : outside) {
    negative.push_back(static_cast<double>(trial->*signal));
    decisions.push_back({negative.back(), weight, false});
  }
  rates.auroc = AreaUnderRoc(positive, negative);
  rates.false_at_95_recall = FalseShareAtRecall(positive, negative, 0.95);
  rates.curve = RiskCoverage(std::move(decisions), kCurvePoints);
  return rates;
}

Percentiles Timing(const std::vector<route::RouteTimings>& timings,
                   double route::RouteTimings::*field) {
  std::vector<double> values;
  for (const route::RouteTimings& one : timings) values.push_back(one.*field);
  return PercentilesOf(std::move(values));
}

}  // namespace

Percentiles PercentilesOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  return {values[values.size() / 2], values[values.size() * 95 / 100]};
}

RouteSummary Summarize(const RouteStudy& study, const StudyPoint& point) {
  RouteSummary summary;
  summary.size = point.size;
  std::vector<const RouteTrial*> in_scope, labelled, near_miss, outside,
      several, read_wanted;
  for (const RouteTrial& trial : point.trials) {
    const Gold& gold = study.labels.gold[static_cast<size_t>(trial.query)];
    if (trial.kind == QueryKind::kInScope) {
      in_scope.push_back(&trial);
      if (gold.several_needed()) several.push_back(&trial);
      if (trial.read_wanted) read_wanted.push_back(&trial);
    } else {
      outside.push_back(&trial);
      (trial.kind == QueryKind::kNearMiss ? near_miss : labelled)
          .push_back(&trial);
    }
  }
  const auto is_right = [&](const RouteTrial& trial, int tool) {
    const Gold& gold = study.labels.gold[static_cast<size_t>(trial.query)];
    return !gold.several_needed() && gold.IsRight(tool);
  };
  const auto right = [&](const RouteTrial& trial) {
    return is_right(trial, trial.chosen);
  };
  const auto routed = [](const RouteTrial& trial) -> double {
    return IsRouted(trial);
  };
  summary.trials = static_cast<int>(in_scope.size());
  summary.pool_tools = MeanOf(in_scope, &RouteTrial::pool_tools);
  for (size_t r = 0; r < kRankingCount; ++r) {
    summary.rankings[r].top1 = Gather(
        in_scope,
        [r](const RouteTrial& trial) -> double { return trial.hits[r].first; });
    summary.rankings[r].recall_at_5 = Gather(
        in_scope,
        [r](const RouteTrial& trial) { return trial.hits[r].recall_at_5; });
    summary.rankings[r].recall_at_20 = Gather(
        in_scope,
        [r](const RouteTrial& trial) { return trial.hits[r].recall_at_20; });
  }
  summary.auto_share = Gather(in_scope, routed);
  summary.queries = summary.auto_share.queries;
  RateOf precision;
  for (const RouteTrial* trial : in_scope) {
    precision.Add(*trial, IsRouted(*trial) && right(*trial),
                  IsRouted(*trial) ? 1 : 0);
    RouteSummary::RuleCount& rule = summary.rules[trial->rule];
    ++rule.trials;
    rule.right += right(*trial);
  }
  summary.auto_precision = precision.Get();
  summary.reranked_share =
      Gather(in_scope,
             [](const RouteTrial& trial) -> double { return trial.reranked; });
  summary.abstain_share =
      Gather(in_scope, [](const RouteTrial& trial) -> double {
        return trial.outcome == route::Outcome::kAbstain;
      });
  summary.false_route = Gather(outside, routed);
  summary.false_route_labelled = Gather(labelled, routed);
  summary.false_route_near_miss = Gather(near_miss, routed);
  const auto by_margin = [](const RouteTrial& trial) -> double {
    return trial.paper_outcome == route::Outcome::kRoute;
  };
  summary.paper_share = Gather(in_scope, by_margin);
  summary.paper_false_route = Gather(outside, by_margin);
  RateOf paper_precision;
  for (const RouteTrial* trial : in_scope) {
    const double taken = by_margin(*trial);
    paper_precision.Add(*trial, taken * is_right(*trial, trial->paper_chosen),
                        taken);
  }
  summary.paper_precision = paper_precision.Get();
  const double in_routed = (1 - kOutOfScopeTraffic) * summary.auto_share.value;
  const double out_routed = kOutOfScopeTraffic * summary.false_route.value;
  if (!outside.empty() && in_routed + out_routed > 0) {
    summary.traffic_precision =
        in_routed * summary.auto_precision.value / (in_routed + out_routed);
  }
  constexpr auto kNexus = static_cast<size_t>(Ranking::kNexus);
  summary.several_recall = Gather(several, [](const RouteTrial& trial) {
    return trial.hits[kNexus].recall_at_5;
  });
  summary.complete_at_5 =
      Gather(several, [](const RouteTrial& trial) -> double {
        return trial.hits[kNexus].complete_at_5;
      });
  summary.several_routed = Gather(several, routed);
  summary.write_first = Gather(
      read_wanted,
      [](const RouteTrial& trial) -> double { return trial.write_chosen; });
  summary.write_routed =
      Gather(read_wanted, [](const RouteTrial& trial) -> double {
        return trial.write_chosen && IsRouted(trial);
      });
  summary.tokens_all = MeanOf(in_scope, &RouteTrial::tokens_all);
  summary.tokens_bm25_top5 = MeanOf(in_scope, &RouteTrial::tokens_bm25_top5);
  std::vector<const RouteTrial*> taken;
  std::copy_if(in_scope.begin(), in_scope.end(), std::back_inserter(taken),
               [](const RouteTrial* trial) { return IsRouted(*trial); });
  summary.tokens_chosen = MeanOf(taken, &RouteTrial::tokens_chosen);
  if (!in_scope.empty() && !outside.empty()) {
    summary.signals = {
        RateSignal("lead", in_scope, outside, right, &RouteTrial::lead),
        RateSignal("top score", in_scope, outside, right,
                   &RouteTrial::top_score)};
  }
  std::vector<float> scores;
  for (const RouteTrial* trial : in_scope) scores.push_back(trial->top_score);
  std::sort(scores.begin(), scores.end());
  for (const int percent : {1, 5, 25, 50, 75, 95, 99}) {
    if (scores.empty()) break;
    summary.top_score[percent] = static_cast<double>(
        scores[scores.size() * static_cast<size_t>(percent) / 100]);
  }
  summary.latency_queries = static_cast<int>(point.timings.size());
  summary.embed = Timing(point.timings, &route::RouteTimings::embed_us);
  summary.scan = Timing(point.timings, &route::RouteTimings::scan_us);
  summary.bm25 = Timing(point.timings, &route::RouteTimings::bm25_us);
  summary.gate = Timing(point.timings, &route::RouteTimings::gate_us);
  // Only where the re-ranker ran.
  std::vector<double> rerank;
  for (const route::RouteTimings& one : point.timings) {
    if (study.has_reranker && one.rerank_us > 0) {
      rerank.push_back(one.rerank_us);
    }
  }
  summary.rerank = PercentilesOf(std::move(rerank));
  return summary;
}

}  // namespace nexus::eval
