#include "nexus/llm/logprobs.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace nexus::llm {

LogprobRow Logprobs(std::span<const float> logits, Token sampled, int top) {
  const double best = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) {
    sum += std::exp(static_cast<double>(logit) - best);
  }
  const double log_sum = std::log(sum);
  const auto row = [&](Token token) {
    // The difference first: beside a large logit the other term would be lost.
    return TokenLogprob{token,
                        (logits[static_cast<size_t>(token)] - best) - log_sum};
  };
  LogprobRow result = {row(sampled), {}};
  if (top <= 0) return result;
  const size_t count = std::min(logits.size(), static_cast<size_t>(top));
  std::vector<Token> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(),
                    order.begin() + static_cast<std::ptrdiff_t>(count),
                    order.end(), [&](Token a, Token b) {
                      const float left = logits[static_cast<size_t>(a)];
                      const float right = logits[static_cast<size_t>(b)];
                      return left != right ? left > right : a < b;
                    });
  for (size_t i = 0; i < count; ++i) result.top.push_back(row(order[i]));
  return result;
}

}  // namespace nexus::llm
