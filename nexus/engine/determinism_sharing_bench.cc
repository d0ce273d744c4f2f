// Does it matter that two sessions' bookkeeping may share a cache line?
//
// What Nexus itself writes while sessions run on threads of their own is a few
// words a step in each Session and Context: token count, exact count, rows of
// logits. Two threads write such words side by side in one line, and apart,
// with more and more work between writes. A decode of one token takes 5 ms on
// SmolLM2 and 70 on the default model; the longest work here is 0.1 ms.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "benchmark/benchmark.h"

namespace nexus::engine {
namespace {

constexpr size_t kLineBytes = 64;
constexpr int kThreads = 2;

// As the fields of a session; atomics only so that the compiler keeps the
// stores, which cost what plain ones do.
struct Words {
  std::atomic<uint64_t> tokens{0};
  std::atomic<uint64_t> exact{0};
  std::atomic<uint64_t> rows{0};

  void Write(uint64_t value) {
    tokens.store(value, std::memory_order_relaxed);
    exact.store(value, std::memory_order_relaxed);
    rows.store(value, std::memory_order_relaxed);
  }
};
struct alignas(kLineBytes) PaddedWords : Words {};
static_assert(kThreads * sizeof(Words) <= kLineBytes);

alignas(kLineBytes) std::array<Words, kThreads> g_packed;
std::array<PaddedWords, kThreads> g_padded;

// A chain of multiplications that no compiler shortens.
uint64_t Work(int64_t rounds, uint64_t seed) {
  for (int64_t i = 0; i < rounds; ++i) seed = seed * 6364136223846793005U + 1;
  return seed;
}

template <typename Array>
void Steps(benchmark::State& state, Array& all) {
  auto& own = all[static_cast<size_t>(state.thread_index())];
  uint64_t value = 1;
  for (auto _ : state) {
    value = Work(state.range(0), value);
    own.Write(value);
  }
  benchmark::DoNotOptimize(value);
}

void BM_OneLine(benchmark::State& state) { Steps(state, g_packed); }
void BM_LineEach(benchmark::State& state) { Steps(state, g_padded); }
// Rounds of about a nanosecond and a half.
BENCHMARK(BM_OneLine)->Arg(0)->Arg(1000)->Arg(64000)->Threads(kThreads);
BENCHMARK(BM_LineEach)->Arg(0)->Arg(1000)->Arg(64000)->Threads(kThreads);

}  // namespace
}  // namespace nexus::engine

BENCHMARK_MAIN();
