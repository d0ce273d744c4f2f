// Opening a block as the default model makes it for one tool: 24 layers, 2 KV
// heads of 64 (Qwen2.5-Coder 0.5B), 420 tokens, 5 MB. Every byte is checked, so
// this is the cost of never using a damaged row.
#include "benchmark/benchmark.h"

#include "nexus/base/test_util.h"
#include "nexus/kv/block_reader.h"
#include "nexus/kv/testing/sample_block.h"

namespace nexus::kv {
namespace {

void OpenBlock(benchmark::State& state, const BlockOpenOptions& options) {
  const ScopedTempDir dir;
  const testing::SampleBlock sample({.token_count = 420,
                                     .layer_count = 24,
                                     .k_elements = 128,
                                     .v_elements = 128});
  const std::string path = dir.File("block.nxb");
  const Result<uint64_t> bytes =
      WriteBlockFile(FileSystem::Default(), path, sample.Contents());
  NEXUS_CHECK(bytes.ok());
  for (auto _ : state) {
    const auto block = KvBlock::Open(path, options);
    NEXUS_CHECK(block.ok());
    benchmark::DoNotOptimize((*block)->KRow(0, 0));
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(*bytes));
}

void BM_OpenVerified(benchmark::State& state) { OpenBlock(state, {}); }
void BM_OpenForListing(benchmark::State& state) {
  OpenBlock(state, {.verify_sections = false});
}
BENCHMARK(BM_OpenVerified);
BENCHMARK(BM_OpenForListing);

}  // namespace
}  // namespace nexus::kv

BENCHMARK_MAIN();
