// Tokens that a full store still gives out, by what goes first: the least
// recently used block or the one of the least value. Counters are shares of the
// tokens asked for, over the trace of eviction_trace.h; the arguments are the
// store's size in percent of all blocks, what moves, and mixed storage.
#include "benchmark/benchmark.h"

#include "nexus/kv/testing/eviction_trace.h"

namespace nexus::kv {
namespace {

using testing::EvictionPolicy;

void BM_TokenHitRate(benchmark::State& state) {
  testing::TraceOptions options;
  options.limit_share = static_cast<double>(state.range(0)) / 100;
  if (state.range(1) == 0) options.move_every = options.sweep_every = 0;
  if (state.range(1) == 2) options.move_every = 2;
  options.mixed_storage = state.range(2) != 0;
  double lru = 0;
  double value = 0;
  for (auto _ : state) {
    lru = testing::TokenHitRate(options, EvictionPolicy::kLeastRecentlyUsed);
    value = testing::TokenHitRate(options, EvictionPolicy::kLeastValue);
  }
  state.counters["lru"] = lru;
  state.counters["value"] = value;
}
// 0: nothing moves. 1: a tool in 20 uses and a sweep in 500. 2: a tool in two.
BENCHMARK(BM_TokenHitRate)
    ->ArgNames({"percent", "moving", "mixed"})
    ->ArgsProduct({{2, 10, 25}, {0, 1, 2}, {0, 1}})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

}  // namespace
}  // namespace nexus::kv

BENCHMARK_MAIN();
