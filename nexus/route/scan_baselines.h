// ScanBaselines: what others would search a registry's embeddings with, for
// ScanBench. A build has those that it was configured with.
//
// One thread each: not thread-safe.
#ifndef NEXUS_ROUTE_SCAN_BASELINES_H_
#define NEXUS_ROUTE_SCAN_BASELINES_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace nexus::route {

class ScanBaseline {
 public:
  virtual ~ScanBaseline() = default;
  // Rows, best first, at most top_k; until the next call. `query` has the
  // dimension of the rows and unit length.
  virtual std::span<const int64_t> Search(const float* query, int top_k) = 0;
};

// Indices over `rows`, [row, dim] of unit length. Null when this build has none
// of the kind.

// NEXUS_BENCH_FAISS.
enum class FaissKind { kFlat, kSq8 };
std::unique_ptr<ScanBaseline> MakeFaiss(FaissKind kind,
                                        std::span<const float> rows, int dim);

// NEXUS_BENCH_USEARCH. Inner products of int8 by NumKong's kernels, which are
// USearch's, built for this machine; quantised as USearch does it (unit length
// times 127), which loses more than a scale of each row's own.
//   kExact  all rows, in a pass as `usearch.index.search(exact=True)` takes it
//   kHnsw   its graph with the defaults (16 neighbours, 128 visited to build,
//           64 to search)
enum class UsearchKind { kExact, kHnsw };
std::unique_ptr<ScanBaseline> MakeUsearch(UsearchKind kind,
                                          std::span<const float> rows, int dim);

}  // namespace nexus::route

#endif  // NEXUS_ROUTE_SCAN_BASELINES_H_
