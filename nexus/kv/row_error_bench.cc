// What fewer bits lose of a block's rows, and what decoding costs.
//
//   row_error_bench                          times, on made-up rows
//   NEXUS_BLOCK=FILE.nxb row_error_bench     and errors, on a real block
//
// Two errors for each storage: against the rows' own length, and against what
// differs between tokens (the rows less their mean over the tokens), which is
// what attention tells tokens apart by. "rows" is the same bit rate in groups
// of 32 along the row, as quantised KV caches have it: symmetric, float16
// scale.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "benchmark/benchmark.h"

#include "nexus/base/check.h"
#include "nexus/kv/block_reader.h"
#include "nexus/kv/block_storage.h"
#include "nexus/kv/key_rotator.h"
#include "nexus/simd/float16.h"
#include "nexus/simd/rope_rotate.h"

namespace nexus::kv {
namespace {

constexpr size_t kTokens = 420;
constexpr size_t kElements = 128;

std::vector<float> ByRows(const std::vector<float>& rows, int bits) {
  constexpr size_t kGroup = 32;
  std::vector<float> out(rows.size());
  const auto largest = static_cast<float>((1 << (bits - 1)) - 1);
  for (size_t begin = 0; begin < rows.size(); begin += kGroup) {
    const size_t end = std::min(begin + kGroup, rows.size());
    float peak = 0;
    for (size_t i = begin; i < end; ++i) {
      peak = std::max(peak, std::fabs(rows[i]));
    }
    const float scale = simd::F16BitsToF32(simd::F32ToF16Bits(peak / largest));
    for (size_t i = begin; i < end && scale > 0; ++i) {
      out[i] =
          std::clamp(std::round(rows[i] / scale), -largest, largest) * scale;
    }
  }
  return out;
}

std::vector<float> ByChannels(const std::vector<float>& rows, size_t tokens,
                              RowStorage storage) {
  const EncodedShape shape = {storage, tokens, rows.size() / tokens};
  std::vector<uint8_t> bytes(shape.byte_count());
  NEXUS_CHECK(EncodeRows(shape, rows.data(), bytes.data()).ok());
  std::vector<float> out(rows.size());
  DecodeRows(shape, bytes.data(), 0, tokens, out.data());
  return out;
}

// Over layers: mean of both errors, squared.
struct Error {
  double whole = 0;
  double moving = 0;

  void Add(const std::vector<float>& rows, const std::vector<float>& found,
           size_t tokens) {
    const size_t elements = rows.size() / tokens;
    double error = 0;
    double norm = 0;
    double moved = 0;
    for (size_t i = 0; i < elements; ++i) {
      double mean = 0;
      for (size_t t = 0; t < tokens; ++t) {
        mean += static_cast<double>(rows[t * elements + i]);
      }
      mean /= static_cast<double>(tokens);
      for (size_t t = 0; t < tokens; ++t) {
        const auto x = static_cast<double>(rows[t * elements + i]);
        const auto y = static_cast<double>(found[t * elements + i]);
        error += (y - x) * (y - x);
        norm += x * x;
        moved += (x - mean) * (x - mean);
      }
    }
    whole += error / norm;
    moving += error / moved;
  }
};

void PrintErrors(const KvBlock& block) {
  const auto tokens = static_cast<size_t>(block.token_count());
  const auto layers = static_cast<double>(block.layers().size());
  std::printf("%s, %zu tokens, %.0f layers\n%-14s %10s %10s\n",
              block.metadata().tool_name.c_str(), tokens, layers, "rms error",
              "of rows", "of moves");
  for (const bool keys : {true, false}) {
    for (const int bits : {8, 4}) {
      Error by_rows;
      Error by_channels;
      for (size_t layer = 0; layer < block.layers().size(); ++layer) {
        const llm::KvLayerShape& shape = block.layers()[layer];
        std::vector<float> rows(tokens *
                                (keys ? shape.k_elements : shape.v_elements));
        if (keys) {
          block.ReadK(layer, 0, block.token_count(), rows.data());
        } else {
          block.ReadV(layer, 0, block.token_count(), rows.data());
        }
        by_rows.Add(rows, ByRows(rows, bits), tokens);
        by_channels.Add(
            rows,
            ByChannels(rows, tokens,
                       bits == 8 ? RowStorage::kQ8 : RowStorage::kQ4),
            tokens);
      }
      const char* name = keys ? "K" : "V";
      std::printf("%s %d rows     %10.5f %10.5f\n", name, bits,
                  std::sqrt(by_rows.whole / layers),
                  std::sqrt(by_rows.moving / layers));
      std::printf("%s %d channels %10.5f %10.5f\n", name, bits,
                  std::sqrt(by_channels.whole / layers),
                  std::sqrt(by_channels.moving / layers));
    }
  }
}

std::vector<float> MadeUp() {
  std::vector<float> rows(kTokens * kElements);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = std::sin(static_cast<float>(i) * 0.37F) +
              static_cast<float>(i % kElements) * 0.25F;
  }
  return rows;
}

void BM_DecodeLayer(benchmark::State& state) {
  const EncodedShape shape = {static_cast<RowStorage>(state.range(0)), kTokens,
                              kElements};
  const std::vector<float> rows = MadeUp();
  std::vector<uint8_t> bytes(shape.byte_count());
  NEXUS_CHECK(EncodeRows(shape, rows.data(), bytes.data()).ok());
  std::vector<float> out(rows.size());
  for (auto _ : state) {
    DecodeRows(shape, bytes.data(), 0, kTokens, out.data());
    benchmark::DoNotOptimize(out.data());
  }
}
BENCHMARK(BM_DecodeLayer)->ArgName("storage")->Arg(1)->Arg(2);

// What a splice does with the same rows when they are stored as cached.
void BM_RotateLayer(benchmark::State& state) {
  llm::RopeSpec rope;
  llm::LayerRope layer;
  layer.params.rotated_dims = 64;
  layer.head_count = 2;
  layer.head_dim = 64;
  rope.layers.push_back(layer);
  const KeyRotator rotator(rope, 1000, static_cast<int>(kTokens));
  const std::vector<float> rows = MadeUp();
  std::vector<uint16_t> in(rows.size());
  simd::F32ToF16(rows.data(), in.data(), rows.size());
  std::vector<uint16_t> out(rows.size());
  for (auto _ : state) {
    for (size_t t = 0; t < kTokens; ++t) {
      rotator.Rotate(0, static_cast<int>(t), in.data() + t * kElements,
                     out.data() + t * kElements);
    }
    benchmark::DoNotOptimize(out.data());
  }
}
BENCHMARK(BM_RotateLayer);

}  // namespace
}  // namespace nexus::kv

int main(int argc, char** argv) {
  if (const char* path = std::getenv("NEXUS_BLOCK")) {
    const auto block = nexus::kv::KvBlock::Open(path);
    if (!block.ok()) {
      std::fprintf(stderr, "%s\n", block.status().message().c_str());
      return 1;
    }
    nexus::kv::PrintErrors(**block);
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
