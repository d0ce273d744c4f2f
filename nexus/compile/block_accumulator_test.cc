#include "nexus/compile/block_accumulator.h"

#include <cmath>
#include <random>
#include <vector>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/kv/block_format.h"
#include "nexus/kv/block_writer.h"
#include "nexus/kv/key_rotator.h"
#include "nexus/simd/rope_rotate.h"

namespace nexus::compile {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kTokens = 5;
constexpr size_t kHeadDim = 8;

// Two layers of one head in float32, so that the only rounding is the
// arithmetic's.
class BlockAccumulatorTest : public ::testing::Test {
 protected:
  BlockAccumulatorTest() {
    for (int layer = 0; layer < 2; ++layer) {
      layout_.layers.push_back({.k_elements = kHeadDim,
                                .v_elements = kHeadDim,
                                .k_type = llm::KvType::kF32,
                                .v_type = llm::KvType::kF32});
      llm::LayerRope rope;
      rope.params.rotated_dims = kHeadDim;
      rope.params.base = layer == 0 ? 10000.0F : 500.0F;
      rope.head_count = 1;
      rope.head_dim = kHeadDim;
      rope_.layers.push_back(rope);
    }
  }

  using Values = std::vector<std::vector<float>>;  // [layer] [token, element]

  Values Random(uint32_t seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    Values values(2, std::vector<float>(kTokens * kHeadDim));
    for (auto& layer : values) {
      for (float& value : layer) value = normal(random);
    }
    return values;
  }

  // Rows of tokens [begin, end) as the cache would hold them at `position`.
  llm::KvRows Rows(const Values& k, const Values& v, llm::Position position,
                   int begin, int end) {
    llm::KvRows rows;
    rows.first_position = position + begin;
    rows.token_count = end - begin;
    const kv::KeyRotator rotator(rope_, position, kTokens);
    for (size_t layer = 0; layer < 2; ++layer) {
      std::vector<float> k_rows;
      std::vector<float> v_rows;
      for (int token = begin; token < end; ++token) {
        std::vector<float> rotated(kHeadDim);
        const size_t at = kHeadDim * static_cast<size_t>(token);
        rotator.Rotate(layer, token, k[layer].data() + at, rotated.data());
        k_rows.insert(k_rows.end(), rotated.begin(), rotated.end());
        v_rows.insert(v_rows.end(), v[layer].begin() + static_cast<long>(at),
                      v[layer].begin() + static_cast<long>(at + kHeadDim));
      }
      const auto* k_bytes = reinterpret_cast<const uint8_t*>(k_rows.data());
      const auto* v_bytes = reinterpret_cast<const uint8_t*>(v_rows.data());
      rows.k.emplace_back(k_bytes, k_bytes + k_rows.size() * sizeof(float));
      rows.v.emplace_back(v_bytes, v_bytes + v_rows.size() * sizeof(float));
    }
    return rows;
  }

  static float At(const std::vector<std::vector<uint8_t>>& rows, size_t layer,
                  size_t i) {
    return reinterpret_cast<const float*>(rows[layer].data())[i];
  }

  enum class Keep { kAll, kProfileOnly, kNothing };
  static constexpr kv::BlockStorage kQ8 = {kv::RowStorage::kQ8,
                                           kv::RowStorage::kQ8};

  // Through a file and back, as from one use of a block to the next.
  Result<BlockAccumulator> Stored(const BlockAccumulator& accumulator,
                                  Keep keep = Keep::kAll,
                                  kv::BlockKind kind = kv::BlockKind::kSplice,
                                  const kv::BlockStorage& storage = {}) {
    NEXUS_ASSIGN_OR_RETURN(const AccumulatedBlock block, accumulator.Finish());
    const std::vector<llm::Token> tokens(kTokens, 7);
    kv::BlockContents contents;
    contents.metadata.kind = kind;
    contents.storage = storage;
    contents.metadata.context_count = block.context_count;
    contents.tokens = tokens;
    contents.layers = layout_.layers;
    contents.k = block.k;
    contents.v = block.v;
    if (keep != Keep::kNothing) contents.sensitivity = block.sensitivity;
    if (keep == Keep::kAll) contents.v_m2 = block.v_m2;
    const std::string path = dir_.File("block.nxb");
    NEXUS_RETURN_IF_ERROR(
        kv::WriteBlockFile(FileSystem::Default(), path, contents).status());
    NEXUS_ASSIGN_OR_RETURN(const auto stored, kv::KvBlock::Open(path));
    return BlockAccumulator::Restore(layout_, rope_, *stored);
  }

  llm::KvLayout layout_;
  llm::RopeSpec rope_;
  ScopedTempDir dir_;
};

TEST_F(BlockAccumulatorTest, AveragesUnrotatedKeysOverDepths) {
  BlockAccumulator accumulator(layout_, rope_, kTokens);
  const Values k = Random(1);
  const Values other_k = Random(2);
  const Values v = Random(3);
  ASSERT_OK(accumulator.Add(Rows(k, v, 20, 0, kTokens)));
  ASSERT_OK(accumulator.Add(Rows(other_k, v, 1500, 0, kTokens)));
  ASSERT_OK_AND_ASSIGN(const AccumulatedBlock block, accumulator.Finish());
  EXPECT_EQ(block.context_count, 2);
  for (size_t layer = 0; layer < 2; ++layer) {
    for (size_t i = 0; i < kTokens * kHeadDim; ++i) {
      EXPECT_NEAR(At(block.k, layer, i), (k[layer][i] + other_k[layer][i]) / 2,
                  1e-5);
      EXPECT_NEAR(At(block.v, layer, i), v[layer][i], 1e-6);
    }
  }
}

TEST_F(BlockAccumulatorTest, SensitivityIsVarianceOverSquaredMean) {
  constexpr int kContexts = 6;
  BlockAccumulator accumulator(layout_, rope_, kTokens);
  std::vector<Values> samples;
  for (int i = 0; i < kContexts; ++i) {
    samples.push_back(Random(static_cast<uint32_t>(10 + i)));
    ASSERT_OK(accumulator.Add(
        Rows(samples.back(), samples.back(), 100 * i, 0, kTokens)));
  }
  ASSERT_OK_AND_ASSIGN(const AccumulatedBlock block, accumulator.Finish());
  ASSERT_THAT(block.sensitivity, SizeIs(kTokens));
  // In two passes, the slow and obvious way.
  for (size_t token = 0; token < kTokens; ++token) {
    double expected = 0;
    for (size_t layer = 0; layer < 2; ++layer) {
      double variance = 0;
      double norm = 0;
      for (size_t i = token * kHeadDim; i < (token + 1) * kHeadDim; ++i) {
        double mean = 0;
        for (const Values& v : samples) mean += v[layer][i] / kContexts;
        norm += mean * mean;
        for (const Values& v : samples) {
          variance += (v[layer][i] - mean) * (v[layer][i] - mean);
        }
      }
      expected += variance / (kContexts - 1) / norm;
    }
    EXPECT_NEAR(block.sensitivity[token], expected, 1e-4 * expected);
  }
}

TEST_F(BlockAccumulatorTest, TakesABlockInPieces) {
  const Values k = Random(1);
  const Values v = Random(2);
  BlockAccumulator whole(layout_, rope_, kTokens);
  ASSERT_OK(whole.Add(Rows(k, v, 64, 0, kTokens)));
  BlockAccumulator pieces(layout_, rope_, kTokens);
  ASSERT_OK(pieces.Add(Rows(k, v, 64, 0, 2)));
  EXPECT_EQ(pieces.Finish().status().code(), StatusCode::kInvalidArgument);
  ASSERT_OK(pieces.Add(Rows(k, v, 64, 2, kTokens)));
  ASSERT_OK_AND_ASSIGN(const AccumulatedBlock a, whole.Finish());
  ASSERT_OK_AND_ASSIGN(const AccumulatedBlock b, pieces.Finish());
  EXPECT_EQ(a.k, b.k);
  EXPECT_EQ(a.v, b.v);
}

TEST_F(BlockAccumulatorTest, OneContextHasNoProfile) {
  BlockAccumulator accumulator(layout_, rope_, kTokens);
  EXPECT_EQ(accumulator.Finish().status().code(), StatusCode::kInvalidArgument);
  ASSERT_OK(accumulator.Add(Rows(Random(1), Random(2), 0, 0, kTokens)));
  ASSERT_OK_AND_ASSIGN(const AccumulatedBlock block, accumulator.Finish());
  EXPECT_THAT(block.sensitivity, IsEmpty());
}

// Samples folded into the stored block one at a time, or all in one go.
TEST_F(BlockAccumulatorTest, GoesOnFromAStoredBlock) {
  BlockAccumulator whole(layout_, rope_, kTokens);
  ASSERT_OK(whole.Add(Rows(Random(1), Random(1), 30, 0, kTokens)));
  ASSERT_OK_AND_ASSIGN(BlockAccumulator folded, Stored(whole));
  for (uint32_t seed = 2; seed < 9; ++seed) {
    const llm::KvRows rows = Rows(Random(seed), Random(seed),
                                  50 * static_cast<int>(seed), 0, kTokens);
    ASSERT_OK(whole.Add(rows));
    ASSERT_OK(folded.Add(rows));
    ASSERT_OK_AND_ASSIGN(folded, Stored(folded));
  }
  EXPECT_EQ(folded.context_count(), 8);
  ASSERT_OK_AND_ASSIGN(const AccumulatedBlock expected, whole.Finish());
  ASSERT_OK_AND_ASSIGN(const AccumulatedBlock found, folded.Finish());
  EXPECT_EQ(found.k, expected.k);
  EXPECT_EQ(found.v, expected.v);
  for (size_t token = 0; token < kTokens; ++token) {
    EXPECT_NEAR(found.sensitivity[token], expected.sensitivity[token],
                1e-5 * static_cast<double>(expected.sensitivity[token]));
  }
}

// Rounding again at every fold, far beyond the cap where a sample moves the
// mean by a 32nd: the mean stays within two steps of 8 bits of the one that was
// never rounded.
TEST_F(BlockAccumulatorTest, GoesOnFromABlockOfEightBits) {
  BlockAccumulator whole(layout_, rope_, kTokens);
  ASSERT_OK(whole.Add(Rows(Random(1), Random(1), 30, 0, kTokens)));
  ASSERT_OK_AND_ASSIGN(BlockAccumulator folded,
                       Stored(whole, Keep::kAll, kv::BlockKind::kSplice, kQ8));
  for (uint32_t seed = 2; seed < 3 * kv::kSampleWeightCap; ++seed) {
    const llm::KvRows rows = Rows(Random(seed), Random(seed),
                                  20 * static_cast<int>(seed), 0, kTokens);
    ASSERT_OK(whole.Add(rows));
    ASSERT_OK(folded.Add(rows));
    ASSERT_OK_AND_ASSIGN(
        folded, Stored(folded, Keep::kAll, kv::BlockKind::kSplice, kQ8));
  }
  EXPECT_EQ(folded.context_count(), whole.context_count());
  for (size_t layer = 0; layer < 2; ++layer) {
    for (const bool keys : {true, false}) {
      const auto& exact = keys ? whole.KMean(layer) : whole.VMean(layer);
      const auto& found = keys ? folded.KMean(layer) : folded.VMean(layer);
      const auto [low, high] = std::minmax_element(exact.begin(), exact.end());
      double square = 0;
      for (size_t i = 0; i < exact.size(); ++i) {
        const auto error = static_cast<double>(found[i] - exact[i]);
        square += error * error;
      }
      const double rms = std::sqrt(square / static_cast<double>(exact.size()));
      EXPECT_LT(rms, 2 * static_cast<double>(*high - *low) / 255);
    }
  }
}

TEST_F(BlockAccumulatorTest, ABlockWithoutM2KeepsItsSensitivity) {
  BlockAccumulator accumulator(layout_, rope_, kTokens);
  for (uint32_t seed = 1; seed < 5; ++seed) {
    ASSERT_OK(accumulator.Add(Rows(Random(seed), Random(seed), 9, 0, kTokens)));
  }
  ASSERT_OK_AND_ASSIGN(const AccumulatedBlock expected, accumulator.Finish());
  ASSERT_OK_AND_ASSIGN(const BlockAccumulator restored,
                       Stored(accumulator, Keep::kProfileOnly));
  ASSERT_OK_AND_ASSIGN(const AccumulatedBlock found, restored.Finish());
  for (size_t token = 0; token < kTokens; ++token) {
    EXPECT_NEAR(found.sensitivity[token], expected.sensitivity[token],
                1e-5 * static_cast<double>(expected.sensitivity[token]));
  }
  EXPECT_EQ(Stored(accumulator, Keep::kNothing).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(
      Stored(accumulator, Keep::kAll, kv::BlockKind::kVariant).status().code(),
      StatusCode::kInvalidArgument);
}

// After a change of scene the mean goes over to the new one, and the spread
// with it, however many samples of the old one there were.
TEST_F(BlockAccumulatorTest, OldSamplesFadeBeyondTheCap) {
  std::mt19937 random(3);
  std::normal_distribution<float> noise(0.0F, 0.1F);
  BlockAccumulator accumulator(layout_, rope_, kTokens);
  const auto add = [&](float level) {
    Values values(2, std::vector<float>(kTokens * kHeadDim));
    for (auto& layer : values) {
      for (float& value : layer) value = level + noise(random);
    }
    EXPECT_OK(accumulator.Add(Rows(values, values, 5, 0, kTokens)));
  };
  for (int i = 0; i < 200; ++i) add(1.0F);
  for (int i = 0; i < 4 * kv::kSampleWeightCap; ++i) add(2.0F);
  ASSERT_OK_AND_ASSIGN(BlockAccumulator later, Stored(accumulator));
  EXPECT_EQ(later.context_count(), 200 + 4 * kv::kSampleWeightCap);
  for (int i = 0; i < 6 * kv::kSampleWeightCap; ++i) add(2.0F);
  ASSERT_OK_AND_ASSIGN(const AccumulatedBlock block, accumulator.Finish());
  // Var / ||mean||^2 of each layer is 0.1^2 / 2^2, over 2 layers.
  for (size_t token = 0; token < kTokens; ++token) {
    EXPECT_NEAR(At(block.v, 0, token * kHeadDim), 2.0, 0.1);
    EXPECT_NEAR(block.sensitivity[token], 2 * 0.01 / 4, 0.0015);
  }
}

TEST_F(BlockAccumulatorTest, RefusesABlockOfAnotherShape) {
  BlockAccumulator accumulator(layout_, rope_, kTokens);
  ASSERT_OK(accumulator.Add(Rows(Random(1), Random(2), 0, 0, kTokens)));
  ASSERT_OK_AND_ASSIGN(const BlockAccumulator same, Stored(accumulator));
  EXPECT_EQ(same.context_count(), 1);
  ASSERT_OK_AND_ASSIGN(const auto stored,
                       kv::KvBlock::Open(dir_.File("block.nxb")));
  llm::KvLayout other = layout_;
  other.layers.pop_back();
  EXPECT_EQ(BlockAccumulator::Restore(other, rope_, *stored).status().code(),
            StatusCode::kIncompatible);
}

TEST_F(BlockAccumulatorTest, RefusesRowsThatDoNotFit) {
  BlockAccumulator accumulator(layout_, rope_, kTokens);
  const Values values = Random(1);
  ASSERT_OK(accumulator.Add(Rows(values, values, 0, 0, 3)));
  EXPECT_EQ(accumulator.Add(Rows(values, values, 0, 0, 3)).code(),
            StatusCode::kInvalidArgument);
  llm::KvRows other_shape = Rows(values, values, 0, 3, kTokens);
  other_shape.k[1].pop_back();
  EXPECT_EQ(accumulator.Add(other_shape).code(), StatusCode::kInvalidArgument);
  other_shape.k.pop_back();
  EXPECT_EQ(accumulator.Add(other_shape).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace nexus::compile
