#include "nexus/base/paired_stats.h"

#include <algorithm>
#include <cmath>

namespace nexus {
namespace {

constexpr double kZ95 = 1.959963984540054;

}  // namespace

double McNemarExact(int64_t only_first, int64_t only_second) {
  const int64_t n = only_first + only_second;
  const int64_t fewer = std::min(only_first, only_second);
  // 2 P(X <= fewer), X ~ Binomial(n, 1/2), in logarithms: n may be large.
  double tail = 0;
  for (int64_t k = 0; k <= fewer; ++k) {
    const auto real_n = static_cast<double>(n);
    const auto real_k = static_cast<double>(k);
    tail += std::exp(std::lgamma(real_n + 1) - std::lgamma(real_k + 1) -
                     std::lgamma(real_n - real_k + 1) - real_n * std::log(2.0));
  }
  return std::min(1.0, 2 * tail);
}

Interval WilsonInterval(int64_t successes, int64_t total) {
  if (total <= 0) return {0, 1};
  const auto n = static_cast<double>(total);
  const double share = static_cast<double>(successes) / n;
  const double z2 = kZ95 * kZ95;
  const double centre = share + z2 / (2 * n);
  const double half =
      kZ95 * std::sqrt(share * (1 - share) / n + z2 / (4 * n * n));
  return {std::max(0.0, (centre - half) / (1 + z2 / n)),
          std::min(1.0, (centre + half) / (1 + z2 / n))};
}

}  // namespace nexus
