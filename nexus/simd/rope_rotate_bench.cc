// Re-anchoring one compiled tool schema: 400 tokens of Qwen2.5-0.5B, which has
// 24 layers of 2 key heads with 64 dimensions, half-split, base 1e6. The angles
// of a token serve all its layers and heads.
//
// The transposes are of the same block's V, into a cache of 4,096 cells
// (without flash attention V lies transposed, one strided row a channel).
#include <cmath>
#include <random>
#include <vector>

#include "benchmark/benchmark.h"

#include "nexus/simd/float16.h"
#include "nexus/simd/rope_rotate.h"

namespace nexus::simd {
namespace {

constexpr size_t kTokens = 400;
constexpr size_t kLayers = 24;
constexpr size_t kPairs = 32;
constexpr RopeRowShape kShape{
    .head_count = 2, .head_dim = 64, .rotated_dims = 64};
constexpr size_t kRow = kShape.head_count * kShape.head_dim;
constexpr size_t kCells = 4096;
constexpr int32_t kFirstPosition = 256;

std::vector<uint16_t> RandomHalves(size_t n) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0F, 2.0F);
  std::vector<uint16_t> halves(n);
  for (uint16_t& half : halves) half = F32ToF16Bits(normal(random));
  return halves;
}

using RotateFunction = void (*)(const RopeRowShape&, const float*, const float*,
                                const uint16_t*, uint16_t*);

void RotateBlock(benchmark::State& state, RotateFunction rotate) {
  const RopeParams params{.rotated_dims = 2 * kPairs, .base = 1e6F};
  // [layer, token, head, head_dim]
  const std::vector<uint16_t> in = RandomHalves(kLayers * kTokens * kRow);
  std::vector<uint16_t> out(in.size());
  // [token, pair]
  std::vector<float> cos(kTokens * kPairs);
  std::vector<float> sin(kTokens * kPairs);
  for (auto _ : state) {
    for (size_t t = 0; t < kTokens; ++t) {
      RopeCosSin(params, kFirstPosition + static_cast<int32_t>(t),
                 {&cos[t * kPairs], kPairs}, {&sin[t * kPairs], kPairs});
    }
    for (size_t row = 0; row < kLayers * kTokens; ++row) {
      const size_t t = row % kTokens;
      rotate(kShape, &cos[t * kPairs], &sin[t * kPairs], &in[row * kRow],
             &out[row * kRow]);
    }
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() *
                          static_cast<int64_t>(in.size() * sizeof(in[0])));
}

void AnglesOnly(benchmark::State& state) {
  const RopeParams params{.rotated_dims = 2 * kPairs, .base = 1e6F};
  std::vector<float> cos(kPairs);
  std::vector<float> sin(kPairs);
  for (auto _ : state) {
    for (size_t t = 0; t < kTokens; ++t) {
      RopeCosSin(params, kFirstPosition + static_cast<int32_t>(t), cos, sin);
      benchmark::DoNotOptimize(cos.data());
      benchmark::DoNotOptimize(sin.data());
    }
  }
}

void TransposeElementwise(const uint16_t* in, size_t rows, size_t columns,
                          size_t in_stride, uint16_t* out, size_t out_stride) {
  for (size_t t = 0; t < rows; ++t) {
    for (size_t c = 0; c < columns; ++c) {
      out[c * out_stride + t] = in[t * in_stride + c];
    }
  }
}

using TransposeFunction = void (*)(const uint16_t*, size_t, size_t, size_t,
                                   uint16_t*, size_t);

void TransposeBlock(benchmark::State& state, TransposeFunction transpose) {
  const std::vector<uint16_t> in = RandomHalves(kLayers * kTokens * kRow);
  // [layer, channel, cell]
  std::vector<uint16_t> out(kLayers * kRow * kCells);
  for (auto _ : state) {
    for (size_t layer = 0; layer < kLayers; ++layer) {
      transpose(&in[layer * kTokens * kRow], kTokens, kRow, kRow,
                &out[layer * kRow * kCells] + kFirstPosition, kCells);
    }
    benchmark::DoNotOptimize(out.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() *
                          static_cast<int64_t>(in.size() * sizeof(in[0])));
}

BENCHMARK_CAPTURE(RotateBlock, dispatched, &RotateRowF16)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(RotateBlock, scalar, &RotateRowF16Scalar)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(AnglesOnly)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(TransposeBlock, tiled, &Transpose16)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(TransposeBlock, elementwise, &TransposeElementwise)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace nexus::simd

BENCHMARK_MAIN();
