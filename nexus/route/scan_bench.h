// ScanBench: one query against registries of growing size, by the SLB and by
// what others would use in its place, in one run and on one thread.
//
// The arms take turns, so that whatever else the machine does falls on all of
// them. Recall is against the exact cosine in float32.
#ifndef NEXUS_ROUTE_SCAN_BENCH_H_
#define NEXUS_ROUTE_SCAN_BENCH_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nexus/base/result.h"

namespace nexus::route {

struct ScanBenchOptions {
  std::vector<int> tools = {250, 2500, 25000, 100000};
  std::vector<int> dims = {384, 768};
  int queries = 40;
  int rounds = 5;  // times that each query is asked of each arm
  int top_k = 10;
  // Rows to take in place of made-up ones, [tool, dim], all of one dimension:
  // beyond their number they are repeated with noise.
  std::vector<std::vector<float>> embeddings = {};
  std::function<void(double share, const std::string& step)> progress = {};
};

struct ScanCase {
  int tools = 0;
  int dim = 0;
  // Medians over queries and rounds, microseconds a query, top k included.
  double nexus_us = 0;  // SlbScan::kAuto
  double one_stage_us = 0;
  double two_stage_us = 0;
  double plain_us = 0;  // the loop that a compiler sees, with the same top k
  std::optional<double> faiss_flat_us;
  std::optional<double> faiss_sq8_us;
  double recall = 0;            // of nexus
  double recall_one_stage = 0;  // what INT8 alone costs
  size_t bytes = 0;
};

// kInvalidArgument: a size or dimension below 1, embeddings of unequal length.
Result<std::vector<ScanCase>> RunScanBench(const ScanBenchOptions& options);

// Indices of others, built over `rows` ([tool, dim], unit length). Null when
// this build has none (NEXUS_BENCH_FAISS).
class ScanBaseline {
 public:
  virtual ~ScanBaseline() = default;
  virtual void Search(const float* query, int top_k) = 0;
};
enum class FaissKind { kFlat, kSq8 };
std::unique_ptr<ScanBaseline> MakeFaiss(FaissKind kind,
                                        std::span<const float> rows, int dim);

}  // namespace nexus::route

#endif  // NEXUS_ROUTE_SCAN_BENCH_H_
