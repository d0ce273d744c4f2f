#include "nexus/route/gate_head.h"

#include <algorithm>
#include <cmath>

namespace nexus::route {

GateSignals ReadSignals(const SignalInput& input) {
  const auto at = [](std::span<const float> scores, int tool) {
    const float score = scores[static_cast<size_t>(tool)];
    return std::isnan(score) ? 0.0F : score;
  };
  const auto twin_class = [&](int tool) {
    return input.twin_class[static_cast<size_t>(tool)];
  };
  float best_words = 0;
  float rival_words = 0;
  float rival_cosine = 0;
  float rival_blended = 0;
  for (const int tool : input.scope) {
    const float words = at(input.bm25, tool);
    best_words = std::max(best_words, words);
    if (twin_class(tool) == twin_class(input.best)) continue;
    rival_words = std::max(rival_words, words);
    rival_cosine = std::max(rival_cosine, at(input.dense, tool));
    rival_blended = std::max(rival_blended, at(input.blended, tool));
  }
  const float scale = best_words > 0 ? 1 / best_words : 0;
  const float words = at(input.bm25, input.best) * scale;
  const float cosine = at(input.dense, input.best);
  return {
      cosine,
      cosine - rival_cosine,
      words,
      words - rival_words * scale,
      at(input.blended, input.best) - rival_blended,
      std::log10(static_cast<float>(std::max<size_t>(input.scope.size(), 1))),
      0,
      0};
}

float GateHead::Chance(const GateSignals& signals) const {
  float sum = bias;
  for (size_t i = 0; i < kGateSignalCount; ++i) sum += weights[i] * signals[i];
  return 1 / (1 + std::exp(-sum));
}

}  // namespace nexus::route
