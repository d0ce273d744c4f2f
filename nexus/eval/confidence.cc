#include "nexus/eval/confidence.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace nexus::eval {

double AreaUnderRoc(std::span<const double> positive,
                    std::span<const double> negative) {
  if (positive.empty() || negative.empty()) return 0.5;
  std::vector<double> sorted(negative.begin(), negative.end());
  std::sort(sorted.begin(), sorted.end());
  double wins = 0;
  for (const double value : positive) {
    const auto [low, high] =
        std::equal_range(sorted.begin(), sorted.end(), value);
    wins += static_cast<double>(low - sorted.begin()) +
            0.5 * static_cast<double>(high - low);
  }
  return wins / (static_cast<double>(positive.size()) *
                 static_cast<double>(negative.size()));
}

double FalseShareAtRecall(std::span<const double> positive,
                          std::span<const double> negative, double recall) {
  if (positive.empty() || negative.empty()) return 0;
  std::vector<double> sorted(positive.begin(), positive.end());
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  // Less a hair: 0.95 * 20 must ask for 19, not for 20.
  const double wanted =
      std::ceil(recall * static_cast<double>(sorted.size()) - 1e-9);
  const size_t last = static_cast<size_t>(
      std::clamp(wanted, 1.0, static_cast<double>(sorted.size())));
  const double threshold = sorted[last - 1];
  const auto passed =
      std::count_if(negative.begin(), negative.end(),
                    [&](double value) { return value >= threshold; });
  return static_cast<double>(passed) / static_cast<double>(negative.size());
}

std::vector<CoveragePoint> RiskCoverage(std::vector<ScoredDecision> decisions,
                                        int points) {
  double total = 0;
  for (const ScoredDecision& one : decisions) total += one.weight;
  std::vector<CoveragePoint> curve;
  if (total <= 0) return curve;
  std::sort(decisions.begin(), decisions.end(),
            [](const ScoredDecision& a, const ScoredDecision& b) {
              return a.confidence > b.confidence;
            });
  double answered = 0;
  double wrong = 0;
  int next = 1;
  for (size_t i = 0; i < decisions.size(); ++i) {
    answered += decisions[i].weight;
    if (!decisions[i].right) wrong += decisions[i].weight;
    if (i + 1 < decisions.size() &&
        decisions[i + 1].confidence == decisions[i].confidence) {
      continue;
    }
    const double coverage = answered / total;
    if (coverage < static_cast<double>(next) / points - 1e-12) continue;
    curve.push_back({coverage, wrong / answered, decisions[i].confidence});
    while (static_cast<double>(next) / points <= coverage + 1e-12) ++next;
  }
  return curve;
}

}  // namespace nexus::eval
