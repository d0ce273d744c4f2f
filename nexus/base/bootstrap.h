// Bootstrap: 95 % intervals of means and ratios, by drawing with replacement
// (Efron 1979), percentile form. Seeded: the same samples always give the same
// interval, on every machine.
#ifndef NEXUS_BASE_BOOTSTRAP_H_
#define NEXUS_BASE_BOOTSTRAP_H_

#include <cstdint>
#include <span>

namespace nexus {

struct Interval {
  double low = 0;
  double high = 0;
};

inline constexpr int kBootstrapResamples = 10'000;

// Of the mean of the samples. [0, 0] for none.
Interval BootstrapMean(std::span<const double> samples, uint64_t seed = 1);

// What a ratio of sums is made of, a unit of drawing each: the queries that
// were routed (`whole`) and were right (`part`), a trial's positions and their
// sum. The units must be independent of each other; what is inside one needn't.
struct RatioSample {
  double part = 0;
  double whole = 0;
};

// Sum of parts over sum of wholes; 0 when the wholes sum to 0.
double Ratio(std::span<const RatioSample> samples);

// Of that ratio. Resamples without any whole are left out; [0, 0] when all are.
Interval BootstrapRatio(std::span<const RatioSample> samples,
                        uint64_t seed = 1);

}  // namespace nexus

#endif  // NEXUS_BASE_BOOTSTRAP_H_
