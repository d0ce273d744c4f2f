// ScanBench: one query against registries of growing size, by the SLB and by
// what others would use in its place, in one run and on one thread.
//
// The arms take turns, so that whatever else the machine does falls on all of
// them. Recall is against the exact cosine in float32.
#ifndef NEXUS_ROUTE_SCAN_BENCH_H_
#define NEXUS_ROUTE_SCAN_BENCH_H_

#include <functional>
#include <optional>
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

// What another does with the same rows.
struct BaselineFigures {
  double us = 0;        // median a query
  double recall = 0;    // at top_k
  double build_ms = 0;  // to have all rows in it
};

struct ScanCase {
  int tools = 0;
  int dim = 0;
  // Medians over queries and rounds, microseconds a query, top k included.
  double nexus_us = 0;  // SlbScan::kAuto
  double one_stage_us = 0;
  double two_stage_us = 0;
  double plain_us = 0;  // the loop that a compiler sees, with the same top k
  // Of those that this build has; see scan_baselines.h.
  std::optional<BaselineFigures> faiss_flat;
  std::optional<BaselineFigures> faiss_sq8;
  std::optional<BaselineFigures> usearch;
  std::optional<BaselineFigures> usearch_hnsw;
  double recall = 0;            // of nexus
  double recall_one_stage = 0;  // what INT8 alone costs
  size_t bytes = 0;
};

// kInvalidArgument: a size or dimension below 1, embeddings of unequal length.
Result<std::vector<ScanCase>> RunScanBench(const ScanBenchOptions& options);

}  // namespace nexus::route

#endif  // NEXUS_ROUTE_SCAN_BENCH_H_
