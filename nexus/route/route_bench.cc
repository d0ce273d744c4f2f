// Latency of routing without the encoder: the scan alone, and all of Route.
//
// 250 tools is what ten MCP servers bring; 5,700 is the largest pool of the
// evaluation protocol; 384 numbers a row are MiniLM's. Texts are made of 60
// words drawn from 4,000, about what a tool's name, description and parameters
// give.
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "benchmark/benchmark.h"

#include "nexus/route/router.h"

namespace nexus::route {
namespace {

constexpr int kDimension = 384;

std::vector<float> UnitVector(std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> v(kDimension);
  float norm = 0;
  for (float& x : v) {
    x = normal(random);
    norm += x * x;
  }
  for (float& x : v) x /= std::sqrt(norm);
  return v;
}

// Free, so that Route's own work is what is measured.
class InstantEmbedder : public llm::Embedder {
 public:
  int dimension() const override { return kDimension; }
  std::string fingerprint() const override { return "bench"; }
  Result<std::vector<std::vector<float>>> Embed(
      std::span<const std::string> texts, llm::TextRole role) override {
    std::vector<std::vector<float>> out;
    if (role == llm::TextRole::kQuery) return {{query_}};
    for (size_t i = 0; i < texts.size(); ++i) {
      out.push_back(UnitVector(random_));
    }
    return out;
  }

 private:
  std::mt19937 random_{1};
  std::vector<float> query_ = UnitVector(random_);
};

std::string Words(std::mt19937& random, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += "word" + std::string(1, static_cast<char>('a' + random() % 26)) +
            static_cast<char>('a' + random() % 26) +
            static_cast<char>('a' + random() % 6) + " ";
  }
  return text;
}

void BM_SlbScan(benchmark::State& state) {
  const int rows = static_cast<int>(state.range(0));
  std::mt19937 random(1);
  Slb slb(kDimension);
  slb.Reserve(rows);
  for (int r = 0; r < rows; ++r) slb.Append({}, UnitVector(random));
  const std::vector<float> query = UnitVector(random);
  for (auto _ : state) {
    benchmark::DoNotOptimize(slb.ScoreAll(query));
  }
  state.SetItemsProcessed(state.iterations() * rows);
}
BENCHMARK(BM_SlbScan)
    ->Arg(36)
    ->Arg(250)
    ->Arg(5700)
    ->Unit(benchmark::kMicrosecond);

void BM_RouteWithoutEmbedding(benchmark::State& state) {
  std::mt19937 random(2);
  std::vector<schema::ToolSchema> tools(static_cast<size_t>(state.range(0)));
  for (size_t i = 0; i < tools.size(); ++i) {
    tools[i].name = "tool_" + std::to_string(i);
    tools[i].description = Words(random, 60);
  }
  InstantEmbedder embedder;
  const auto index = ToolIndex::Build(std::move(tools), &embedder);
  if (!index.ok()) {
    state.SkipWithError(index.status().ToString().c_str());
    return;
  }
  const Router router(index.value(), &embedder);
  const std::string query = Words(random, 15);
  RouteTimings sum;
  for (auto _ : state) {
    const auto decision = router.Route(query);
    sum.scan_us += decision->timings.scan_us;
    sum.bm25_us += decision->timings.bm25_us;
    sum.gate_us += decision->timings.gate_us;
  }
  using Counter = benchmark::Counter;
  state.counters["scan_us"] = Counter(sum.scan_us, Counter::kAvgIterations);
  state.counters["bm25_us"] = Counter(sum.bm25_us, Counter::kAvgIterations);
  state.counters["gate_us"] = Counter(sum.gate_us, Counter::kAvgIterations);
}
BENCHMARK(BM_RouteWithoutEmbedding)
    ->Arg(36)
    ->Arg(250)
    ->Arg(5700)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace nexus::route

BENCHMARK_MAIN();
