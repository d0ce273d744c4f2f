// Median of a benchmark's times: what is reported, since machines are shared
// and noisy.
#ifndef NEXUS_BASE_MEDIAN_H_
#define NEXUS_BASE_MEDIAN_H_

#include <algorithm>
#include <vector>

namespace nexus {

// The mean of the two in the middle for an even number, 0 for none.
inline double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

}  // namespace nexus

#endif  // NEXUS_BASE_MEDIAN_H_
