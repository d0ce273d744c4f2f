#include "nexus/compile/block_compiler.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/kv/block_format.h"
#include "nexus/kv/splicer.h"
#include "nexus/kv/testing/sample_block.h"
#include "nexus/llm/testing/tiny_model.h"

namespace nexus::compile {
namespace {

using ::nexus::llm::testing::TinyArch;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::vector<llm::Token> Text(int count, int seed) {
  std::vector<llm::Token> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(40 + (i * 7 + seed) % 80);
  return tokens;
}

class BlockCompilerTest : public ::testing::TestWithParam<TinyArch> {
 protected:
  void SetUp() override {
    const std::string path = dir_.File("tiny.gguf");
    ASSERT_OK(llm::testing::WriteTinyModel(path, {.arch = GetParam()}));
    ASSERT_OK_AND_ASSIGN(model_, llm::Model::Load({.path = path}));
    ASSERT_OK_AND_ASSIGN(
        context_,
        llm::Context::Create(model_, {.context_tokens = 512, .threads = 1}));
    ASSERT_OK_AND_ASSIGN(access_, llm::KvAccess::Create(context_.get()));
    ASSERT_OK_AND_ASSIGN(rope_, llm::ProbeRope(*context_, *access_));
    ASSERT_OK_AND_ASSIGN(store_,
                         kv::BlockStore::Open({.dir = dir_.File("blocks")}));
    environment_ = {.context = context_.get(),
                    .access = access_.get(),
                    .rope = &rope_,
                    .store = store_.get()};
    environment_.fingerprint.model_sha256 = "tiny";
    for (int i = 0; i < 3; ++i) {
      jobs_.push_back({.tool_name = "tool" + std::to_string(i),
                       .schema_hash = std::to_string(i),
                       .tokens = Text(80 + 10 * i, i)});
      contexts_.push_back({.name = "context" + std::to_string(i),
                           .tokens = Text(20 + 15 * i, 11 + i)});
    }
  }

  kv::BlockKey KeyOf(const CompileJob& job) const {
    return {environment_.fingerprint.Digest(), kv::BlockKind::kSplice,
            kv::SpliceContent(job.tokens, options_.recipe)};
  }

  Result<CompileReport> Compile() {
    return CompileBlocks(environment_, contexts_, jobs_, options_);
  }

  std::vector<float> Decode(const std::vector<llm::Token>& tokens) {
    EXPECT_OK(context_->Decode(tokens, context_->PositionEnd(0), 0,
                               llm::Logits::kLast));
    const auto row = context_->LogitsRow(0);
    return {row.begin(), row.end()};
  }

  static bool HaveSameRows(const kv::KvBlock& a, const kv::KvBlock& b) {
    const auto tokens = static_cast<size_t>(a.token_count());
    for (size_t layer = 0; layer < a.layers().size(); ++layer) {
      const size_t k_bytes = a.KStrideBytes(layer) * tokens;
      const size_t v_bytes = a.VStrideBytes(layer) * tokens;
      if (!std::equal(a.KRow(layer, 0), a.KRow(layer, 0) + k_bytes,
                      b.KRow(layer, 0)) ||
          !std::equal(a.VRow(layer, 0), a.VRow(layer, 0) + v_bytes,
                      b.VRow(layer, 0))) {
        return false;
      }
    }
    return std::equal(a.sensitivity().begin(), a.sensitivity().end(),
                      b.sensitivity().begin(), b.sensitivity().end());
  }

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

  ScopedTempDir dir_;
  std::shared_ptr<const llm::Model> model_;
  std::unique_ptr<llm::Context> context_;
  std::unique_ptr<llm::KvAccess> access_;
  llm::RopeSpec rope_;
  std::unique_ptr<kv::BlockStore> store_;
  CompileEnvironment environment_;
  CompileOptions options_ = {.recipe = "test/3"};
  std::vector<CompileJob> jobs_;
  std::vector<CompileContext> contexts_;
};

TEST_P(BlockCompilerTest, StoresABlockWithProfileForEachTool) {
  ASSERT_OK_AND_ASSIGN(const CompileReport report, Compile());
  EXPECT_EQ(report.compiled, 3);
  EXPECT_THAT(report.failures, IsEmpty());
  EXPECT_GT(report.bytes_written, 0U);
  EXPECT_EQ(context_->PositionEnd(0), 0);
  for (const CompileJob& job : jobs_) {
    ASSERT_OK_AND_ASSIGN(const auto block, store_->Find(KeyOf(job)));
    EXPECT_EQ(block->metadata().tool_name, job.tool_name);
    EXPECT_EQ(block->metadata().context_count, 3);
    EXPECT_TRUE(std::equal(job.tokens.begin(), job.tokens.end(),
                           block->tokens().begin(), block->tokens().end()));
    ASSERT_THAT(block->sensitivity(), SizeIs(job.tokens.size()));
    for (const float value : block->sensitivity()) {
      EXPECT_TRUE(std::isfinite(value) && value >= 0);
    }
    EXPECT_GT(*std::max_element(block->sensitivity().begin(),
                                block->sensitivity().end()),
              0.0F);
  }
}

TEST_P(BlockCompilerTest, SpliceBehindItsOnlyContextMatchesPrefill) {
  contexts_.resize(1);
  options_.recipe = "test/1";
  ASSERT_OK(Compile());
  ASSERT_OK_AND_ASSIGN(const auto block, store_->Find(KeyOf(jobs_[1])));
  EXPECT_THAT(block->sensitivity(), IsEmpty());
  const std::vector<llm::Token> question = Text(9, 50);

  Decode(contexts_[0].tokens);
  Decode(jobs_[1].tokens);
  const std::vector<float> expected = Decode(question);
  context_->Clear();
  Decode(contexts_[0].tokens);
  ASSERT_OK_AND_ASSIGN(
      const kv::RecomputePlan plan,
      kv::PlanRecompute({.policy = kv::RepairPolicy::kNone,
                         .token_count = block->token_count()}));
  ASSERT_OK(kv::Splice(*context_, *access_, rope_, *block, plan,
                       {.position = context_->PositionEnd(0)}));
  EXPECT_LT(Difference(expected, Decode(question)), 0.01);
}

// What one tool leaves behind must not reach the next: compiled alone or in
// company, the block is the same.
TEST_P(BlockCompilerTest, ToolsDoNotTouchEachOther) {
  ASSERT_OK(Compile());
  ASSERT_OK_AND_ASSIGN(const auto together, store_->Find(KeyOf(jobs_[2])));
  ASSERT_OK(store_->Remove(KeyOf(jobs_[2])));
  const CompileJob alone[] = {jobs_[2]};
  ASSERT_OK(CompileBlocks(environment_, contexts_, alone, options_));
  ASSERT_OK_AND_ASSIGN(const auto single, store_->Find(KeyOf(jobs_[2])));
  ASSERT_NE(single, together);
  EXPECT_TRUE(HaveSameRows(*together, *single));
}

// Kept cells must give the bits that a decoded context gives.
TEST_P(BlockCompilerTest, DecodesContextsOnceAsMemoryAllows) {
  ASSERT_OK_AND_ASSIGN(const CompileReport kept, Compile());
  ASSERT_OK_AND_ASSIGN(const auto before, store_->Find(KeyOf(jobs_[2])));
  const int64_t context_tokens = 20 + 35 + 50;
  const int64_t tool_tokens = 3 * (80 + 90 + 100);
  EXPECT_EQ(kept.tokens_decoded, context_tokens + tool_tokens);

  options_.memory_bytes = 1;
  options_.recompile = true;
  ASSERT_OK_AND_ASSIGN(const CompileReport anew, Compile());
  EXPECT_EQ(anew.compiled, 3);
  EXPECT_EQ(anew.tokens_decoded, 3 * context_tokens + tool_tokens);
  ASSERT_OK_AND_ASSIGN(const auto after, store_->Find(KeyOf(jobs_[2])));
  ASSERT_NE(before, after);
  EXPECT_TRUE(HaveSameRows(*before, *after));
}

// With the settings that a user gets: a tool is stored before the next begins.
TEST_P(BlockCompilerTest, GoesOnWhereItWasStopped) {
  std::atomic<bool> cancel = false;
  options_.cancel = &cancel;
  options_.progress = [&](const CompileProgress& progress) {
    if (progress.current.ends_with("tool1")) cancel = true;
  };
  EXPECT_EQ(Compile().status().code(), StatusCode::kCancelled);
  EXPECT_EQ(context_->PositionEnd(0), 0);
  EXPECT_OK(store_->Find(KeyOf(jobs_[0])));
  cancel = false;
  std::vector<CompileProgress> seen;
  options_.progress = [&](const CompileProgress& progress) {
    seen.push_back(progress);
  };
  ASSERT_OK_AND_ASSIGN(const CompileReport report, Compile());
  EXPECT_EQ(report.already_present, 1);
  EXPECT_EQ(report.compiled, 2);
  EXPECT_EQ(seen.front().done, 1);
  EXPECT_EQ(seen.back().done, 3);
  EXPECT_EQ(seen.back().tokens_done, seen.back().tokens_total);
}

TEST_P(BlockCompilerTest, CompilesADamagedBlockAgain) {
  ASSERT_OK(Compile());
  std::string path;
  {
    ASSERT_OK_AND_ASSIGN(const auto block, store_->Find(KeyOf(jobs_[0])));
    path = block->path();
  }
  std::filesystem::resize_file(path, 1000);
  ASSERT_OK_AND_ASSIGN(const CompileReport report, Compile());
  EXPECT_EQ(report.compiled, 1);
  EXPECT_EQ(report.already_present, 2);
  EXPECT_OK(store_->Find(KeyOf(jobs_[0])));
}

TEST_P(BlockCompilerTest, LeavesABlockOfANewerNexusAlone) {
  ASSERT_OK(Compile());
  std::string path;
  {
    ASSERT_OK_AND_ASSIGN(const auto block, store_->Find(KeyOf(jobs_[0])));
    path = block->path();
  }
  FileSystem& disk = FileSystem::Default();
  ASSERT_OK_AND_ASSIGN(std::string newer, disk.ReadFile(path));
  kv::StoreLittle(
      kv::kBlockFormatVersion + 1,
      reinterpret_cast<uint8_t*>(&newer[kv::kHeaderMinReaderOffset]));
  kv::testing::Reseal(&newer);
  ASSERT_OK(WriteFileAtomically(disk, path, newer));
  options_.recompile = true;
  ASSERT_OK_AND_ASSIGN(const CompileReport report, Compile());
  EXPECT_EQ(report.compiled, 2);
  ASSERT_THAT(report.failures, SizeIs(1));
  EXPECT_EQ(report.failures[0].tool_name, "tool0");
  EXPECT_EQ(report.failures[0].status.code(), StatusCode::kIncompatible);
}

TEST_P(BlockCompilerTest, ReportsToolsThatDoNotFitAndCompilesTheOthers) {
  jobs_[0].tokens = Text(500, 1);
  jobs_[1].tokens.clear();
  jobs_.push_back(jobs_[2]);  // given twice: compiled once
  ASSERT_OK_AND_ASSIGN(const CompileReport report, Compile());
  ASSERT_THAT(report.failures, SizeIs(2));
  EXPECT_EQ(report.failures[0].tool_name, "tool0");
  EXPECT_EQ(report.failures[0].status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(report.failures[1].status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(report.compiled, 1);
  EXPECT_EQ(report.already_present, 1);
}

TEST_P(BlockCompilerTest, RefusesAContextInUse) {
  Decode(Text(5, 1));
  EXPECT_EQ(Compile().status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(context_->PositionEnd(0), 5);
}

TEST_P(BlockCompilerTest, VariantIsBitIdentical) {
  const std::vector<llm::Token> question = Text(9, 50);
  Decode(contexts_[0].tokens);
  Decode(jobs_[0].tokens);
  ASSERT_OK_AND_ASSIGN(
      const auto block,
      MakeVariant(environment_, {.preceding = contexts_[0].tokens,
                                 .tokens = jobs_[0].tokens,
                                 .tool_name = "tool0"}));
  const std::vector<float> expected = Decode(question);
  EXPECT_EQ(block->kind(), kv::BlockKind::kVariant);
  EXPECT_EQ(block->position(), 20);
  context_->Clear();
  Decode(contexts_[0].tokens);
  ASSERT_OK_AND_ASSIGN(
      const kv::RecomputePlan plan,
      kv::PlanRecompute({.policy = kv::RepairPolicy::kNone,
                         .token_count = block->token_count()}));
  ASSERT_OK(
      kv::Splice(*context_, *access_, rope_, *block, plan, {.position = 20}));
  EXPECT_EQ(Decode(question), expected);
}

INSTANTIATE_TEST_SUITE_P(Archs, BlockCompilerTest,
                         ::testing::Values(TinyArch::kLlama, TinyArch::kQwen2));

// The window is 64 tokens: blocks come in pieces, and a longer context's cells
// can't be kept.
class SlidingWindowTest : public BlockCompilerTest {};

TEST_P(SlidingWindowTest, SpliceBehindItsOnlyContextMatchesPrefill) {
  contexts_.resize(1);
  ASSERT_OK(Compile());
  ASSERT_OK_AND_ASSIGN(const auto block, store_->Find(KeyOf(jobs_[1])));
  const std::vector<llm::Token> question = Text(9, 50);
  Decode(contexts_[0].tokens);
  Decode(jobs_[1].tokens);
  const std::vector<float> expected = Decode(question);
  context_->Clear();
  Decode(contexts_[0].tokens);
  ASSERT_OK_AND_ASSIGN(
      const kv::RecomputePlan plan,
      kv::PlanRecompute({.policy = kv::RepairPolicy::kNone,
                         .token_count = block->token_count()}));
  ASSERT_OK(kv::Splice(*context_, *access_, rope_, *block, plan,
                       {.position = context_->PositionEnd(0)}));
  EXPECT_LT(Difference(expected, Decode(question)), 0.01);
}

TEST_P(SlidingWindowTest, KeepsTheContextsThatFitTheWindow) {
  contexts_[1].tokens = Text(100, 12);
  ASSERT_OK_AND_ASSIGN(const CompileReport kept, Compile());
  ASSERT_OK_AND_ASSIGN(const auto before, store_->Find(KeyOf(jobs_[2])));
  EXPECT_EQ(kept.tokens_decoded, 20 + 50 + 3 * 100 + 3 * (80 + 90 + 100));

  options_.memory_bytes = 1;
  options_.recompile = true;
  ASSERT_OK(Compile());
  ASSERT_OK_AND_ASSIGN(const auto after, store_->Find(KeyOf(jobs_[2])));
  ASSERT_NE(before, after);
  EXPECT_TRUE(HaveSameRows(*before, *after));
}

INSTANTIATE_TEST_SUITE_P(Archs, SlidingWindowTest,
                         ::testing::Values(TinyArch::kGemma3));

}  // namespace
}  // namespace nexus::compile
