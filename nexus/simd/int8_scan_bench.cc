// One query against a registry of tools: 384 columns are all-MiniLM-L6-v2's;
// 250 tools is a well-stocked agent (the rows fit the second-level cache),
// 2,500 and 25,000 leave the second and third level, 100,000 is a whole
// marketplace.
//
// /plain is the loop that a compiler sees, at the project's release flags.
#include <algorithm>
#include <random>
#include <vector>

#include "benchmark/benchmark.h"

#include "nexus/simd/int8_scan.h"

namespace nexus::simd {
namespace {

constexpr size_t kColumns = 384;

using ScanFunction = void (*)(const int8_t*, size_t, size_t, size_t,
                              const int8_t*, int32_t*);

void Scan(benchmark::State& state, ScanFunction scan) {
  const auto row_count = static_cast<size_t>(state.range(0));
  std::mt19937 random(1);
  std::uniform_int_distribution<int> any(-127, 127);
  const auto next = [&] { return static_cast<int8_t>(any(random)); };
  std::vector<int8_t> rows(row_count * kColumns);
  std::generate(rows.begin(), rows.end(), next);
  std::vector<int8_t> query(kColumns);
  std::generate(query.begin(), query.end(), next);
  std::vector<int32_t> scores(row_count);
  for (auto _ : state) {
    scan(rows.data(), row_count, kColumns, kColumns, query.data(),
         scores.data());
    benchmark::DoNotOptimize(scores.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() *
                          static_cast<int64_t>(rows.size()));
  state.SetLabel(scan == &Int8DotScan ? Int8ScanTargetName() : "plain");
}

BENCHMARK_CAPTURE(Scan, dispatched, &Int8DotScan)
    ->Arg(250)
    ->Arg(2'500)
    ->Arg(25'000)
    ->Arg(100'000)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(Scan, plain, &Int8DotScanScalar)
    ->Arg(250)
    ->Arg(2'500)
    ->Arg(25'000)
    ->Arg(100'000)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace nexus::simd

BENCHMARK_MAIN();
