#include "nexus/compile/block_learner.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <thread>
#include <vector>

#include "gmock/gmock.h"

#include "nexus/base/fault_file_system.h"
#include "nexus/base/test_util.h"
#include "nexus/kv/block_format.h"
#include "nexus/kv/testing/sample_block.h"
#include "nexus/llm/testing/kv_test_util.h"
#include "nexus/llm/testing/tiny_model.h"

namespace nexus::compile {
namespace {

using ::nexus::llm::testing::RowsToFloat;
using ::nexus::llm::testing::SomeTokens;
using ::nexus::llm::testing::TinyArch;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int kToolTokens = 60;
constexpr int kContexts = 8;

class BlockLearnerTest : public ::testing::TestWithParam<TinyArch> {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(model_,
                         llm::testing::LoadTinyModel({.arch = GetParam()}));
    ASSERT_OK_AND_ASSIGN(session_,
                         llm::testing::KvSession::Create(
                             model_, {.context_tokens = 512, .threads = 1}));
    ASSERT_OK_AND_ASSIGN(rope_,
                         llm::ProbeRope(*session_.context, *session_.access));
    ASSERT_OK_AND_ASSIGN(store_, OpenStore());
    environment_ = {.context = session_.context.get(),
                    .access = session_.access.get(),
                    .rope = &rope_,
                    .store = store_.get()};
    environment_.fingerprint.model_sha256 = "tiny";
    for (int i = 0; i < kContexts; ++i) {
      contexts_.push_back(
          {.name = "context" + std::to_string(i),
           .tokens = SomeTokens(10 + 7 * i, static_cast<uint32_t>(50 + i))});
    }
  }

  Result<std::unique_ptr<kv::BlockStore>> OpenStore() {
    return kv::BlockStore::Open(
        {.dir = dir_.File("blocks"), .file_system = &disk_});
  }

  // Puts the tool behind a context, as a text prefill does.
  void Prefill(int context) {
    session_.context->Clear();
    ASSERT_OK(session_.Append(contexts_[static_cast<size_t>(context)].tokens));
    ASSERT_OK(session_.Append(tool_));
  }

  LearnRequest Request(int context, const std::string& recipe = "traffic-t") {
    return {.position = static_cast<llm::Position>(
                contexts_[static_cast<size_t>(context)].tokens.size()),
            .tokens = tool_,
            .recipe = recipe,
            .tool_name = "tool",
            .schema_hash = "hash"};
  }

  Result<LearnReport> Learn(int context,
                            const std::string& recipe = "traffic-t") {
    Prefill(context);
    return LearnBlock(environment_, Request(context, recipe));
  }

  Result<std::shared_ptr<const kv::KvBlock>> Find(
      const std::string& recipe = "traffic-t") {
    return store_->Find({environment_.fingerprint.Digest(),
                         kv::BlockKind::kSplice,
                         kv::SpliceContent(tool_, recipe)});
  }

  // The compiler's block of the same tool, behind the first `count` contexts.
  Status Compile(int count, const kv::BlockStorage& storage = {}) {
    session_.context->Clear();
    const CompileJob job = {
        .tool_name = "tool", .schema_hash = "hash", .tokens = tool_};
    return CompileBlocks(environment_,
                         std::span(contexts_).first(static_cast<size_t>(count)),
                         {&job, 1}, {.recipe = "compiled", .storage = storage})
        .status();
  }

  // Largest difference of two blocks' rows, against the largest element.
  static double RowDifference(const kv::KvBlock& a, const kv::KvBlock& b) {
    double difference = 0;
    double largest = 0;
    for (size_t layer = 0; layer < a.layers().size(); ++layer) {
      const auto rows = [&](const kv::KvBlock& block, bool keys) {
        const uint8_t* begin =
            keys ? block.KRow(layer, 0) : block.VRow(layer, 0);
        const size_t stride =
            keys ? block.KStrideBytes(layer) : block.VStrideBytes(layer);
        return RowsToFloat(block.layers()[layer].k_type,
                           {begin, begin + stride * kToolTokens});
      };
      for (const bool keys : {true, false}) {
        const std::vector<float> x = rows(a, keys);
        const std::vector<float> y = rows(b, keys);
        for (size_t i = 0; i < x.size(); ++i) {
          difference =
              std::max(difference, std::abs(static_cast<double>(x[i] - y[i])));
          largest = std::max(largest, std::abs(static_cast<double>(x[i])));
        }
      }
    }
    return difference / largest;
  }

  std::vector<std::string> BlockFiles() {
    std::vector<std::string> found;
    for (const auto& entry :
         std::filesystem::directory_iterator(dir_.File("blocks"))) {
      const std::string name = entry.path().filename().string();
      if (name.find(".nxb") != std::string::npos) found.push_back(name);
    }
    return found;
  }

  ScopedTempDir dir_;
  FaultFileSystem disk_;
  std::shared_ptr<const llm::Model> model_;
  llm::testing::KvSession session_;
  llm::RopeSpec rope_;
  std::unique_ptr<kv::BlockStore> store_;
  CompileEnvironment environment_;
  std::vector<CompileContext> contexts_;
  const std::vector<llm::Token> tool_ = SomeTokens(kToolTokens, 7);
};

TEST_P(BlockLearnerTest, LearnsTheMeanThatTheCompilerMakes) {
  ASSERT_OK(Compile(kContexts));
  ASSERT_OK_AND_ASSIGN(const auto compiled, Find("compiled"));
  for (int i = 0; i < kContexts; ++i) {
    ASSERT_OK_AND_ASSIGN(const LearnReport report, Learn(i));
    EXPECT_EQ(report.samples, i + 1);
    EXPECT_EQ(report.generation, i);
    EXPECT_GT(report.file_bytes, 0U);
  }
  ASSERT_OK_AND_ASSIGN(const auto learned, Find());
  EXPECT_EQ(learned->metadata().context_count, kContexts);
  EXPECT_EQ(learned->metadata().tool_name, "tool");
  // Float16 rounds by at most 1/2048 at each fold, and what fold i rounded is
  // worth i/8 of the mean at the end: 4.5 roundings at worst.
  EXPECT_LT(RowDifference(*compiled, *learned), 4.5 / 2048);
  ASSERT_THAT(learned->sensitivity(), SizeIs(kToolTokens));
  for (size_t i = 0; i < kToolTokens; ++i) {
    EXPECT_NEAR(learned->sensitivity()[i], compiled->sensitivity()[i],
                0.02 * static_cast<double>(compiled->sensitivity()[i]));
  }
  // One generation each.
  EXPECT_THAT(BlockFiles(), SizeIs(2));
}

TEST_P(BlockLearnerTest, ImprovesACompiledBlockAndLeavesMappedOnesAlone) {
  ASSERT_OK(Compile(4));
  ASSERT_OK_AND_ASSIGN(const auto before, Find("compiled"));
  const std::vector<float> profile(before->sensitivity().begin(),
                                   before->sensitivity().end());
  ASSERT_OK_AND_ASSIGN(const LearnReport report, Learn(6, "compiled"));
  EXPECT_EQ(report.samples, 5);
  EXPECT_EQ(report.generation, 1);
  ASSERT_OK_AND_ASSIGN(const auto after, Find("compiled"));
  EXPECT_NE(after, before);
  EXPECT_EQ(before->metadata().generation, 0);
  EXPECT_TRUE(std::equal(profile.begin(), profile.end(),
                         before->sensitivity().begin()));
  EXPECT_GT(RowDifference(*before, *after), 0);
}

TEST_P(BlockLearnerTest, AFailingDiskLosesTheSampleAndNothingElse) {
  using Operation = FaultFileSystem::Operation;
  ASSERT_OK(Learn(0));
  for (const Operation operation :
       {Operation::kCreate, Operation::kAppend, Operation::kSync,
        Operation::kRename, Operation::kSyncDir}) {
    disk_.FailNth(operation, 1, FaultFileSystem::Fault::kNoSpace);
    EXPECT_EQ(Learn(1).status().code(), StatusCode::kResourceExhausted);
    ASSERT_OK_AND_ASSIGN(const auto block, Find());
    EXPECT_EQ(block->metadata().context_count, 1);
    EXPECT_EQ(session_.context->PositionEnd(0), 17 + kToolTokens);
  }
  ASSERT_OK_AND_ASSIGN(const LearnReport report, Learn(1));
  EXPECT_EQ(report.samples, 2);
}

TEST_P(BlockLearnerTest, BeginsAnewBehindADamagedBlock) {
  ASSERT_OK(Learn(0));
  ASSERT_OK(Learn(1));
  std::string path;
  {
    ASSERT_OK_AND_ASSIGN(const auto block, Find());
    path = block->path();
  }
  std::filesystem::resize_file(path, 1000);
  ASSERT_OK_AND_ASSIGN(const LearnReport report, Learn(2));
  EXPECT_EQ(report.samples, 1);
  EXPECT_EQ(report.generation, 0);
  EXPECT_OK(Find());
}

TEST_P(BlockLearnerTest, LeavesABlockOfANewerNexusAlone) {
  ASSERT_OK(Learn(0));
  std::string path;
  {
    ASSERT_OK_AND_ASSIGN(const auto block, Find());
    path = block->path();
  }
  FileSystem& disk = FileSystem::Default();
  ASSERT_OK_AND_ASSIGN(std::string newer, disk.ReadFile(path));
  kv::StoreLittle(
      kv::kBlockFormatVersion + 1,
      reinterpret_cast<uint8_t*>(&newer[kv::kHeaderMinReaderOffset]));
  kv::testing::Reseal(&newer);
  ASSERT_OK(WriteFileAtomically(disk, path, newer));
  EXPECT_EQ(Learn(1).status().code(), StatusCode::kIncompatible);
  ASSERT_OK_AND_ASSIGN(const std::string left, disk.ReadFile(path));
  EXPECT_EQ(left, newer);
}

TEST_P(BlockLearnerTest, KeepsEightBitsAndLeavesFourBitKeysAlone) {
  const kv::BlockStorage q8 = {kv::RowStorage::kQ8, kv::RowStorage::kQ8};
  ASSERT_OK(Compile(2, q8));
  ASSERT_OK_AND_ASSIGN(const LearnReport report, Learn(3, "compiled"));
  EXPECT_EQ(report.samples, 3);
  ASSERT_OK_AND_ASSIGN(const auto learned, Find("compiled"));
  EXPECT_EQ(learned->storage(), q8);
  ASSERT_OK(store_->Remove(learned->key()));

  const kv::BlockStorage q8_k4 = {kv::RowStorage::kQ4, kv::RowStorage::kQ8};
  ASSERT_OK(Compile(2, q8_k4));
  ASSERT_OK_AND_ASSIGN(const LearnReport refused, Learn(3, "compiled"));
  EXPECT_EQ(refused.samples, 0);
  EXPECT_THAT(refused.reason, ::testing::HasSubstr("4-bit"));
  ASSERT_OK_AND_ASSIGN(const auto left, Find("compiled"));
  EXPECT_EQ(left->metadata().generation, 0);
  EXPECT_LT(left->file_bytes(), learned->file_bytes());
}

TEST_P(BlockLearnerTest, RefusesAPlaceThatTeachesNothing) {
  Prefill(0);
  LearnRequest request = Request(0);
  request.position = 0;
  EXPECT_EQ(LearnBlock(environment_, request).status().code(),
            StatusCode::kInvalidArgument);
  request = Request(0);
  request.tokens = {};
  EXPECT_EQ(LearnBlock(environment_, request).status().code(),
            StatusCode::kInvalidArgument);
  // Reaches past what was decoded.
  request = Request(0);
  request.position += 1;
  EXPECT_EQ(LearnBlock(environment_, request).status().code(),
            StatusCode::kNotFound);
  EXPECT_THAT(BlockFiles(), IsEmpty());
}

// Each with a store of its own, as processes have.
TEST_P(BlockLearnerTest, ProcessesFoldAtOnceWithoutLosingASample) {
  constexpr int kProcesses = 4;
  constexpr int kFoldsEach = 3;
  Prefill(2);
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      bool all_well = false;
      if (auto store = OpenStore(); store.ok()) {
        CompileEnvironment environment = environment_;
        environment.store = store->get();
        all_well = true;
        for (int fold = 0; fold < kFoldsEach; ++fold) {
          all_well = LearnBlock(environment, Request(2)).ok() && all_well;
        }
      }
      ::_exit(all_well ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  ASSERT_OK_AND_ASSIGN(const auto block, Find());
  EXPECT_EQ(block->metadata().context_count, kProcesses * kFoldsEach);
  EXPECT_THAT(BlockFiles(), SizeIs(1));
}

INSTANTIATE_TEST_SUITE_P(Archs, BlockLearnerTest,
                         ::testing::Values(TinyArch::kLlama, TinyArch::kQwen2));

// A window of 64 tokens. The cache keeps cells that have left it, and they are
// the sample that they were.
class WindowLearnerTest : public BlockLearnerTest {};

TEST_P(WindowLearnerTest, LearnsFromCellsThatHaveLeftTheWindow) {
  Prefill(0);
  EXPECT_OK(LearnBlock(environment_, Request(0, "at once")));
  for (uint32_t i = 0; i < 6; ++i) {
    ASSERT_OK(session_.Append(SomeTokens(40, i)));
  }
  EXPECT_OK(LearnBlock(environment_, Request(0, "later")));
  ASSERT_OK_AND_ASSIGN(const auto at_once, Find("at once"));
  ASSERT_OK_AND_ASSIGN(const auto later, Find("later"));
  EXPECT_EQ(RowDifference(*at_once, *later), 0);
}

INSTANTIATE_TEST_SUITE_P(Archs, WindowLearnerTest,
                         ::testing::Values(TinyArch::kGemma3));

}  // namespace
}  // namespace nexus::compile
