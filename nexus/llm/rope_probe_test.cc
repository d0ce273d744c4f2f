#include "nexus/llm/rope_probe.h"

#include <filesystem>
#include <string>

#include "nexus/base/test_util.h"
#include "nexus/llm/testing/kv_test_util.h"

namespace nexus::llm {
namespace {

using testing::KvSession;
using testing::LoadTinyModel;
using testing::TinyArch;
using testing::TinyModelOptions;
using testing::TinyScaling;

Result<RopeSpec> Probe(const TinyModelOptions& options,
                       KvType type = KvType::kF16) {
  NEXUS_ASSIGN_OR_RETURN(auto model, LoadTinyModel(options));
  NEXUS_ASSIGN_OR_RETURN(
      KvSession session,
      KvSession::Create(model, {.context_tokens = 2048, .kv_type = type}));
  NEXUS_ASSIGN_OR_RETURN(RopeSpec spec,
                         ProbeRope(*session.context, *session.access));
  EXPECT_EQ(session.context->PositionEnd(0), 0);
  return spec;
}

void ExpectAll(const RopeSpec& spec, const simd::RopeParams& params) {
  ASSERT_EQ(spec.layers.size(), 3U);
  for (const LayerRope& layer : spec.layers) {
    EXPECT_EQ(layer.params, params) << spec.Describe();
    EXPECT_EQ(layer.head_count, 2U);
    EXPECT_LT(layer.worst_error, 2e-3);
  }
}

TEST(RopeProbeTest, FindsAdjacentPairs) {
  ASSERT_OK_AND_ASSIGN(const RopeSpec spec, Probe({.rope_base = 77777.0F}));
  ExpectAll(spec, {.layout = simd::RopeLayout::kAdjacentPairs,
                   .rotated_dims = 16,
                   .base = 77777.0F});
  EXPECT_EQ(spec.Describe(),
            "adjacent pairs, 16 of 16 dims, base 77777, 2 KV heads: layers "
            "0-2");
}

TEST(RopeProbeTest, FindsHalfSplitWithoutADimensionCountInTheFile) {
  ASSERT_OK_AND_ASSIGN(const RopeSpec spec, Probe({.arch = TinyArch::kQwen2}));
  ExpectAll(spec, {.layout = simd::RopeLayout::kHalfSplit, .rotated_dims = 16});
}

TEST(RopeProbeTest, FindsHeadsLongerThanTheirShareOfTheEmbedding) {
  ASSERT_OK_AND_ASSIGN(const RopeSpec spec,
                       Probe({.arch = TinyArch::kQwen3, .head_dim = 40}));
  ExpectAll(spec, {.layout = simd::RopeLayout::kHalfSplit, .rotated_dims = 40});
  EXPECT_EQ(spec.layers[0].head_dim, 40U);
}

TEST(RopeProbeTest, IsTighterOnAnF32Cache) {
  ASSERT_OK_AND_ASSIGN(const RopeSpec spec, Probe({}, KvType::kF32));
  for (const LayerRope& layer : spec.layers) {
    EXPECT_LT(layer.worst_error, 2e-5);
  }
}

TEST(RopeProbeTest, FindsPartialRotation) {
  ASSERT_OK_AND_ASSIGN(const RopeSpec spec,
                       Probe({.arch = TinyArch::kStableLm, .head_dim = 32}));
  ExpectAll(spec, {.layout = simd::RopeLayout::kHalfSplit, .rotated_dims = 8});
  EXPECT_EQ(spec.layers[0].head_dim, 32U);
}

TEST(RopeProbeTest, FindsASecondBaseInWindowLayers) {
  ASSERT_OK_AND_ASSIGN(const RopeSpec spec, Probe({.arch = TinyArch::kGemma3,
                                                   .rope_base = 1000000.0F}));
  ASSERT_EQ(spec.layers.size(), 3U);
  // The base cache's one layer, then the window's two.
  EXPECT_EQ(spec.layers[0].params.base, 1000000.0F);
  EXPECT_EQ(spec.layers[1].params.base, 10000.0F);
  EXPECT_EQ(spec.layers[2].params.base, 10000.0F);
  EXPECT_EQ(spec.Describe(),
            "half-split, 16 of 16 dims, base 1000000, 2 KV heads: layers 0\n"
            "half-split, 16 of 16 dims, base 10000, 2 KV heads: layers 1,2");
}

TEST(RopeProbeTest, FindsSoftCappedWindowModels) {
  ASSERT_OK_AND_ASSIGN(const RopeSpec spec, Probe({.arch = TinyArch::kGemma2}));
  ExpectAll(spec, {.layout = simd::RopeLayout::kHalfSplit, .rotated_dims = 16});
}

TEST(RopeProbeTest, FindsLinearScaling) {
  ASSERT_OK_AND_ASSIGN(const RopeSpec spec,
                       Probe({.scaling = TinyScaling::kLinear}));
  ExpectAll(spec, {.layout = simd::RopeLayout::kAdjacentPairs,
                   .rotated_dims = 16,
                   .freq_scale = 0.25F});
}

TEST(RopeProbeTest, FindsYarn) {
  ASSERT_OK_AND_ASSIGN(const RopeSpec spec,
                       Probe({.scaling = TinyScaling::kYarn}));
  ExpectAll(spec, {.layout = simd::RopeLayout::kAdjacentPairs,
                   .rotated_dims = 16,
                   .freq_scale = 0.25F,
                   .ext_factor = 1.0F,
                   .original_context = 1024});
}

TEST(RopeProbeTest, FindsFrequencyFactors) {
  ASSERT_OK_AND_ASSIGN(const RopeSpec spec,
                       Probe({.scaling = TinyScaling::kLlama3}));
  ASSERT_EQ(spec.layers.size(), 3U);
  const std::vector<float>& factors = spec.layers[0].params.freq_factors;
  ASSERT_EQ(factors.size(), 8U);
  EXPECT_EQ(factors.front(), 1.0F);
  EXPECT_EQ(factors.back(), 8.0F);
  EXPECT_NE(spec.Describe().find("frequency factors"), std::string::npos);
}

TEST(RopeProbeTest, FindsLayersThatAreNotRotated) {
  ASSERT_OK_AND_ASSIGN(const RopeSpec spec,
                       Probe({.arch = TinyArch::kSmolLm3, .layer_count = 4}));
  EXPECT_EQ(spec.Describe(),
            "adjacent pairs, 16 of 16 dims, base 10000, 2 KV heads: layers "
            "0-2\nnot rotated, 16 dims, 2 KV heads: layers 3");
  EXPECT_EQ(spec.layers[3].params.rotated_dims, 0U);
}

// The metadata on disk isn't that of the model in memory: no candidate is
// right.
TEST(RopeProbeTest, RefusesARotationThatItDoesNotKnow) {
  const ScopedTempDir directory;
  const std::string path = directory.File("model.gguf");
  const std::string other = directory.File("other.gguf");
  ASSERT_OK(testing::WriteTinyModel(path, {.rope_base = 77777.0F}));
  ASSERT_OK(testing::WriteTinyModel(other, {.rope_base = 55555.0F}));
  ASSERT_OK_AND_ASSIGN(auto model, Model::Load({.path = path}));
  ASSERT_OK_AND_ASSIGN(KvSession session,
                       KvSession::Create(model, {.context_tokens = 256}));
  std::filesystem::rename(other, path);
  const auto spec = ProbeRope(*session.context, *session.access);
  EXPECT_EQ(spec.status().code(), StatusCode::kUnimplemented);
  EXPECT_NE(spec.status().message().find("KV layer 0"), std::string::npos)
      << spec.status();
  EXPECT_EQ(session.context->PositionEnd(0), 0);
}

TEST(RopeProbeTest, RefusesAContextInUse) {
  ASSERT_OK_AND_ASSIGN(auto model, LoadTinyModel({}));
  ASSERT_OK_AND_ASSIGN(KvSession session,
                       KvSession::Create(model, {.context_tokens = 256}));
  ASSERT_OK(session.Append(testing::SomeTokens(4)));
  EXPECT_EQ(ProbeRope(*session.context, *session.access).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(session.context->PositionEnd(0), 4);
}

}  // namespace
}  // namespace nexus::llm
