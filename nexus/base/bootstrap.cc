#include "nexus/base/bootstrap.h"

#include <algorithm>
#include <vector>

namespace nexus {
namespace {

// xorshift64*, Vigna 2016: std's distributions differ between libraries.
class Draws {
 public:
  explicit Draws(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 1) {}
  size_t Next(size_t count) {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return (state_ * 0x2545F4914F6CDD1DULL >> 33) % count;
  }

 private:
  uint64_t state_;
};

Interval Middle95(std::vector<double>* values) {
  if (values->empty()) return {};
  std::sort(values->begin(), values->end());
  const size_t cut = values->size() / 40;
  return {(*values)[cut], (*values)[values->size() - 1 - cut]};
}

}  // namespace

Interval BootstrapMean(std::span<const double> samples, uint64_t seed) {
  if (samples.empty()) return {};
  Draws draws(seed);
  std::vector<double> means(kBootstrapResamples);
  for (double& mean : means) {
    double sum = 0;
    for (size_t i = 0; i < samples.size(); ++i) {
      sum += samples[draws.Next(samples.size())];
    }
    mean = sum / static_cast<double>(samples.size());
  }
  return Middle95(&means);
}

double Ratio(std::span<const RatioSample> samples) {
  double part = 0;
  double whole = 0;
  for (const RatioSample& sample : samples) {
    part += sample.part;
    whole += sample.whole;
  }
  return whole != 0 ? part / whole : 0;
}

Interval BootstrapRatio(std::span<const RatioSample> samples, uint64_t seed) {
  if (samples.empty()) return {};
  Draws draws(seed);
  std::vector<double> ratios;
  ratios.reserve(kBootstrapResamples);
  for (int round = 0; round < kBootstrapResamples; ++round) {
    double part = 0;
    double whole = 0;
    for (size_t i = 0; i < samples.size(); ++i) {
      const RatioSample& sample = samples[draws.Next(samples.size())];
      part += sample.part;
      whole += sample.whole;
    }
    if (whole != 0) ratios.push_back(part / whole);
  }
  return Middle95(&ratios);
}

}  // namespace nexus
