#include "nexus/kv/splicer.h"

#include <algorithm>
#include <cmath>
#include <ostream>
#include <vector>

#include "gmock/gmock.h"

#include "nexus/base/file_system.h"
#include "nexus/base/test_util.h"
#include "nexus/kv/block_rewrite.h"
#include "nexus/kv/block_writer.h"
#include "nexus/kv/key_rotator.h"
#include "nexus/llm/testing/tiny_model.h"
#include "nexus/simd/rope_rotate.h"

namespace nexus::kv {
namespace {

using ::nexus::llm::testing::TinyArch;
using ::testing::HasSubstr;

struct Setup {
  const char* name;
  TinyArch arch;
  bool flash_attention;
  llm::KvType kv_type;
};

std::ostream& operator<<(std::ostream& out, const Setup& setup) {
  return out << setup.name;
}

std::vector<llm::Token> Text(int count, int seed) {
  std::vector<llm::Token> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(40 + (i * 7 + seed) % 80);
  return tokens;
}

class SplicerTest : public ::testing::TestWithParam<Setup> {
 protected:
  // An engine of its own: context, access and RoPE.
  struct Engine {
    std::unique_ptr<llm::Context> context;
    std::unique_ptr<llm::KvAccess> access;
    llm::RopeSpec rope;
  };

  void SetUp() override {
    const std::string path = dir_.File("tiny.gguf");
    ASSERT_OK(llm::testing::WriteTinyModel(path, {.arch = GetParam().arch}));
    ASSERT_OK_AND_ASSIGN(model_, llm::Model::Load({.path = path}));
  }

  Engine MakeEngine(int context_tokens = 512) {
    Engine engine;
    auto context = llm::Context::Create(
        model_, {.context_tokens = context_tokens,
                 .threads = 1,
                 .flash_attention = GetParam().flash_attention,
                 .kv_type = GetParam().kv_type});
    EXPECT_OK(context);
    engine.context = *std::move(context);
    auto access = llm::KvAccess::Create(engine.context.get());
    EXPECT_OK(access);
    engine.access = *std::move(access);
    auto rope = llm::ProbeRope(*engine.context, *engine.access);
    EXPECT_OK(rope);
    engine.rope = *std::move(rope);
    return engine;
  }

  // Decodes in one call, as a prefill does; returns the last logits.
  static std::vector<float> Decode(Engine& engine,
                                   const std::vector<llm::Token>& tokens) {
    EXPECT_OK(engine.context->Decode(tokens, engine.context->PositionEnd(0), 0,
                                     llm::Logits::kLast));
    const auto row = engine.context->LogitsRow(0);
    return {row.begin(), row.end()};
  }

  // The block's cells as they stand in `engine` at `position`, as a file.
  std::shared_ptr<const KvBlock> MakeBlock(Engine& engine,
                                           llm::Position position,
                                           BlockKind kind) {
    auto rows = engine.access->Read(
        0, position, position + static_cast<int>(block_tokens_.size()));
    EXPECT_OK(rows);
    const auto& layers = engine.access->layout().layers;
    if (kind == BlockKind::kSplice) {
      const KeyRotator rotator(engine.rope, position, rows->token_count);
      for (size_t layer = 0; layer < layers.size(); ++layer) {
        Unrotate(rotator, layer, layers[layer], rows->token_count,
                 rows->k[layer].data());
      }
    }
    BlockContents contents;
    contents.metadata.kind = kind;
    contents.metadata.position = kind == BlockKind::kVariant ? position : 0;
    contents.tokens = block_tokens_;
    contents.layers = layers;
    contents.k = rows->k;
    contents.v = rows->v;
    const std::string path =
        dir_.File(std::string(BlockKindName(kind)) + ".nxb");
    EXPECT_OK(WriteBlockFile(FileSystem::Default(), path, contents));
    auto block = KvBlock::Open(path);
    EXPECT_OK(block);
    return *block;
  }

  static void Unrotate(const KeyRotator& rotator, size_t layer,
                       const llm::KvLayerShape& shape, int token_count,
                       uint8_t* rows) {
    std::vector<float> row(shape.k_elements);
    for (int token = 0; token < token_count; ++token) {
      const size_t at = static_cast<size_t>(token) * shape.k_elements;
      if (shape.k_type == llm::KvType::kF16) {
        auto* halves = reinterpret_cast<uint16_t*>(rows) + at;
        rotator.Unrotate(layer, token, halves, row.data());
        simd::F32ToF16(row.data(), halves, row.size());
      } else {
        auto* floats = reinterpret_cast<float*>(rows) + at;
        rotator.Unrotate(layer, token, floats, row.data());
        std::copy(row.begin(), row.end(), floats);
      }
    }
  }

  static RecomputePlan Plan(const KvBlock& block, RepairPolicy policy,
                            double share = 0) {
    auto plan = PlanRecompute(
        {.policy = policy, .token_count = block.token_count(), .share = share});
    EXPECT_OK(plan);
    return *plan;
  }

  // Largest difference as a share of the largest logit.
  static double Difference(const std::vector<float>& a,
                           const std::vector<float>& b) {
    double worst = 0;
    double largest = 0;
    for (size_t i = 0; i < a.size(); ++i) {
      worst = std::max(worst, std::abs(static_cast<double>(a[i] - b[i])));
      largest = std::max(largest, std::abs(static_cast<double>(a[i])));
    }
    return worst / largest;
  }

  // Keys are rounded to float16 twice: 2^-11 each, over three layers.
  static constexpr double kTolerance = 0.01;

  ScopedTempDir dir_;
  std::shared_ptr<const llm::Model> model_;
  const std::vector<llm::Token> history_ = Text(37, 1);
  const std::vector<llm::Token> block_tokens_ = Text(90, 5);
  const std::vector<llm::Token> question_ = Text(11, 3);
};

TEST_P(SplicerTest, FullRecomputeIsBitIdenticalToPrefill) {
  Engine prefill = MakeEngine();
  Decode(prefill, history_);
  const std::vector<float> expected = Decode(prefill, block_tokens_);
  const auto block = MakeBlock(prefill, 37, BlockKind::kSplice);

  Engine engine = MakeEngine();
  Decode(engine, history_);
  ASSERT_OK_AND_ASSIGN(const SpliceResult result,
                       Splice(*engine.context, *engine.access, engine.rope,
                              *block, Plan(*block, RepairPolicy::kFull),
                              {.position = 37, .logits_for_last = true}));
  EXPECT_EQ(result.recomputed_tokens, 90);
  EXPECT_EQ(result.spliced_tokens, 0);
  const auto row = engine.context->LogitsRow(0);
  EXPECT_EQ(std::vector<float>(row.begin(), row.end()), expected);
}

TEST_P(SplicerTest, SpliceBehindTheSameTextMatchesPrefill) {
  Engine prefill = MakeEngine();
  Decode(prefill, history_);
  Decode(prefill, block_tokens_);
  const auto block = MakeBlock(prefill, 37, BlockKind::kSplice);
  const std::vector<float> expected = Decode(prefill, question_);

  for (const RepairPolicy policy :
       {RepairPolicy::kNone, RepairPolicy::kSuffix, RepairPolicy::kHeadTail}) {
    Engine engine = MakeEngine();
    Decode(engine, history_);
    ASSERT_OK_AND_ASSIGN(
        const SpliceResult result,
        Splice(*engine.context, *engine.access, engine.rope, *block,
               Plan(*block, policy, 0.3), {.position = 37}));
    EXPECT_EQ(result.spliced_tokens + result.recomputed_tokens, 90);
    EXPECT_GT(result.staging_bytes, 0U);
    EXPECT_EQ(engine.context->PositionEnd(0), 127);
    EXPECT_LT(Difference(expected, Decode(engine, question_)), kTolerance)
        << RepairPolicyName(policy);
  }
}

// The control: keys that were not un-rotated must be found out by the same
// measure.
// What the storage takes away shows, and no more than its steps explain: the
// tiny model's random keys have no offsets, so 4 bits lose a tenth of them.
TEST_P(SplicerTest, SplicesBlocksOfFewerBits) {
  Engine prefill = MakeEngine();
  Decode(prefill, history_);
  Decode(prefill, block_tokens_);
  const auto block = MakeBlock(prefill, 37, BlockKind::kSplice);
  const std::vector<float> expected = Decode(prefill, question_);
  const struct {
    BlockStorage storage;
    double tolerance;
  } cases[] = {{{RowStorage::kQ8, RowStorage::kQ8}, 0.03},
               {{RowStorage::kQ4, RowStorage::kQ8}, 0.3}};
  for (const auto& each : cases) {
    const std::string path = dir_.File("fewer.nxb");
    ASSERT_OK(RewriteBlock(FileSystem::Default(), *block, each.storage, path));
    ASSERT_OK_AND_ASSIGN(const auto fewer, KvBlock::Open(path));
    EXPECT_LT(fewer->file_bytes(), block->file_bytes());
    for (const RepairPolicy policy :
         {RepairPolicy::kNone, RepairPolicy::kHeadTail}) {
      Engine engine = MakeEngine();
      Decode(engine, history_);
      ASSERT_OK_AND_ASSIGN(
          const SpliceResult result,
          Splice(*engine.context, *engine.access, engine.rope, *fewer,
                 Plan(*fewer, policy, 0.3), {.position = 37}));
      EXPECT_EQ(result.spliced_tokens + result.recomputed_tokens, 90);
      EXPECT_LT(Difference(expected, Decode(engine, question_)), each.tolerance)
          << BlockStorageName(each.storage);
    }
  }
}

TEST_P(SplicerTest, WronglyRotatedKeysMissTheTolerance) {
  Engine prefill = MakeEngine();
  Decode(prefill, history_);
  Decode(prefill, block_tokens_);
  const auto block = MakeBlock(prefill, 37, BlockKind::kVariant);
  const std::vector<float> expected = Decode(prefill, question_);

  BlockContents contents;
  contents.tokens = block_tokens_;
  contents.layers = block->layers();
  std::vector<std::vector<uint8_t>> k;
  std::vector<std::vector<uint8_t>> v;
  for (size_t layer = 0; layer < block->layers().size(); ++layer) {
    const uint8_t* k_rows = block->KRow(layer, 0);
    const uint8_t* v_rows = block->VRow(layer, 0);
    k.emplace_back(k_rows, k_rows + 90 * block->KStrideBytes(layer));
    v.emplace_back(v_rows, v_rows + 90 * block->VStrideBytes(layer));
  }
  contents.k = k;
  contents.v = v;
  const std::string path = dir_.File("wrong.nxb");
  ASSERT_OK(WriteBlockFile(FileSystem::Default(), path, contents));
  ASSERT_OK_AND_ASSIGN(const auto wrong, KvBlock::Open(path));

  Engine engine = MakeEngine();
  Decode(engine, history_);
  ASSERT_OK(Splice(*engine.context, *engine.access, engine.rope, *wrong,
                   Plan(*wrong, RepairPolicy::kNone), {.position = 37}));
  EXPECT_GT(Difference(expected, Decode(engine, question_)), 2 * kTolerance);
}

TEST_P(SplicerTest, VariantIsBitIdentical) {
  Engine prefill = MakeEngine();
  Decode(prefill, history_);
  Decode(prefill, block_tokens_);
  const auto block = MakeBlock(prefill, 37, BlockKind::kVariant);
  const std::vector<float> expected = Decode(prefill, question_);

  Engine engine = MakeEngine();
  Decode(engine, history_);
  ASSERT_OK(Splice(*engine.context, *engine.access, engine.rope, *block,
                   Plan(*block, RepairPolicy::kNone), {.position = 37}));
  EXPECT_EQ(Decode(engine, question_), expected);
}

TEST_P(SplicerTest, GivesLogitsAfterASplicedLastToken) {
  Engine prefill = MakeEngine();
  Decode(prefill, history_);
  const std::vector<float> expected = Decode(prefill, block_tokens_);
  const auto block = MakeBlock(prefill, 37, BlockKind::kSplice);

  Engine engine = MakeEngine();
  Decode(engine, history_);
  ASSERT_OK_AND_ASSIGN(const SpliceResult result,
                       Splice(*engine.context, *engine.access, engine.rope,
                              *block, Plan(*block, RepairPolicy::kNone),
                              {.position = 37, .logits_for_last = true}));
  EXPECT_EQ(result.recomputed_tokens, 1);
  const auto row = engine.context->LogitsRow(0);
  EXPECT_LT(Difference(expected, {row.begin(), row.end()}), kTolerance);
}

TEST_P(SplicerTest, AFailingWriteLeavesTheSequenceAsBefore) {
  Engine prefill = MakeEngine();
  Decode(prefill, history_);
  const std::vector<float> expected = Decode(prefill, question_);
  prefill.context->Clear();
  Decode(prefill, history_);
  Decode(prefill, block_tokens_);
  const auto block = MakeBlock(prefill, 37, BlockKind::kSplice);

  // 256 cells: a neighbour takes most of them, the block's second piece fails.
  Engine engine = MakeEngine(256);
  Decode(engine, history_);
  const int cells = engine.context->options().context_tokens;
  const std::vector<llm::Token> rest = Text(cells - 37 - 37 - 70, 2);
  Decode(engine, Text(70, 2));
  Decode(engine, rest);
  const int end = engine.context->PositionEnd(0);
  ASSERT_LT(cells - end, 90);
  const auto result =
      Splice(*engine.context, *engine.access, engine.rope, *block,
             Plan(*block, RepairPolicy::kHeadTail, 0.3), {.position = end});
  EXPECT_EQ(result.status().code(), StatusCode::kResourceExhausted)
      << result.status();
  EXPECT_EQ(engine.context->PositionEnd(0), end);
  // What stood before still works.
  ASSERT_TRUE(engine.context->RemoveCells(0, 37, -1));
  EXPECT_LT(Difference(expected, Decode(engine, question_)), 1e-3);
}

TEST_P(SplicerTest, CancelInTheMiddleTakesBackWhatWasLaidDown) {
  Engine engine = MakeEngine();
  Decode(engine, history_);
  Decode(engine, block_tokens_);
  const auto block = MakeBlock(engine, 37, BlockKind::kSplice);
  ASSERT_TRUE(engine.context->RemoveCells(0, 37, -1));
  engine.context->Cancel();
  // The first run is spliced, the second would be decoded.
  const auto result =
      Splice(*engine.context, *engine.access, engine.rope, *block,
             Plan(*block, RepairPolicy::kSuffix, 0.3), {.position = 37});
  EXPECT_EQ(result.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(engine.context->PositionEnd(0), 37);
}

TEST_P(SplicerTest, RefusesWhatDoesNotFit) {
  Engine engine = MakeEngine();
  Decode(engine, history_);
  Decode(engine, block_tokens_);
  const auto splice = MakeBlock(engine, 37, BlockKind::kSplice);
  const auto variant = MakeBlock(engine, 37, BlockKind::kVariant);
  const auto code = [&](const KvBlock& block, const RecomputePlan& plan,
                        llm::Position position) {
    return Splice(*engine.context, *engine.access, engine.rope, block, plan,
                  {.position = position})
        .status()
        .code();
  };
  const RecomputePlan plan = Plan(*splice, RepairPolicy::kNone);
  EXPECT_EQ(code(*splice, plan, 5), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(*variant, plan, 127), StatusCode::kIncompatible);
  RecomputePlan short_plan = plan;
  short_plan.runs.back().end = 80;
  EXPECT_EQ(code(*splice, short_plan, 127), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(*splice, RecomputePlan(), 127), StatusCode::kInvalidArgument);
  EXPECT_EQ(engine.context->PositionEnd(0), 127);
}

INSTANTIATE_TEST_SUITE_P(
    Setups, SplicerTest,
    ::testing::Values(
        Setup{"llama", TinyArch::kLlama, false, llm::KvType::kF16},
        Setup{"llama_flash", TinyArch::kLlama, true, llm::KvType::kF16},
        Setup{"qwen2", TinyArch::kQwen2, false, llm::KvType::kF16},
        Setup{"qwen2_f32", TinyArch::kQwen2, false, llm::KvType::kF32}),
    [](const auto& param_info) { return std::string(param_info.param.name); });

}  // namespace
}  // namespace nexus::kv
