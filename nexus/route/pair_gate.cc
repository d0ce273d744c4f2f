#include "nexus/route/pair_gate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace nexus::route {

std::vector<size_t> OrderByPairs(const PairInput& input, float blend) {
  std::vector<float> scores(input.scores.begin(), input.scores.end());
  for (size_t i = 0; i < scores.size() && !input.first.blended.empty(); ++i) {
    const float fused =
        input.first.blended[static_cast<size_t>(input.tools[i])];
    if (!std::isnan(fused)) scores[i] += blend * fused;
  }
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  return order;
}

float PairOdds(const PairInput& input, size_t best) {
  const auto twin_class = [&](size_t place) {
    return input.first.twin_class[static_cast<size_t>(input.tools[place])];
  };
  // log(1 + sum exp(s)), the largest taken out so that nothing overflows.
  float largest = 0;
  for (const float score : input.scores) largest = std::max(largest, score);
  float sum = std::exp(-largest);
  for (size_t i = 0; i < input.scores.size(); ++i) {
    if (twin_class(i) == twin_class(best)) continue;
    sum += std::exp(input.scores[i] - largest);
  }
  // The twins may be all that is large: the sum of the rest is then 0.
  constexpr float kSmallest = 1e-30F;
  return input.scores[best] - largest - std::log(std::max(sum, kSmallest));
}

GateSignals ReadPairSignals(const PairInput& input, size_t best) {
  GateSignals signals{};
  if (!input.first.dense.empty() && !input.first.blended.empty()) {
    SignalInput first = input.first;
    first.best = input.tools[best];
    signals = ReadSignals(first);
  }
  signals[kPairScore] = input.scores[best];
  signals[kPairOdds] = PairOdds(input, best);
  return signals;
}

GateDecision DecideByPairs(const PairInput& input, size_t best,
                           const PairGateOptions& options) {
  if (options.head.has_value() && !input.first.dense.empty() &&
      !input.first.blended.empty()) {
    GateDecision decision =
        DecideByHead(ReadPairSignals(input, best), *options.head);
    decision.rule = "pair-" + decision.rule;
    return decision;
  }
  GateDecision decision;
  decision.margin = PairOdds(input, best);
  decision.threshold = options.route_odds;
  const std::string odds = "its log odds against the others and none are " +
                           FormatSignal(decision.margin) + ", ";
  if (decision.margin >= options.route_odds) {
    decision.outcome = Outcome::kRoute;
    decision.rule = "pair-odds";
    decision.reason = odds + "at least " + FormatSignal(options.route_odds);
  } else if (decision.margin < -options.route_odds) {
    decision.outcome = Outcome::kAbstain;
    decision.rule = "pair-odds-low";
    decision.threshold = -options.route_odds;
    decision.reason = odds + "less than " + FormatSignal(-options.route_odds);
  } else {
    decision.outcome = Outcome::kRerank;
    decision.rule = "pair-odds-unsure";
    decision.reason = odds + "less than " + FormatSignal(options.route_odds);
  }
  return decision;
}

}  // namespace nexus::route
