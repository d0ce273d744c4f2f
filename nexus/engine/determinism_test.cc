// The bench itself, on tiny models: equal where it must be, and able to see a
// difference where there is one.
#include "gmock/gmock.h"

#include "nexus/engine/determinism_bench.h"
#include "nexus/engine/testing/tiny_engine.h"

namespace nexus::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TinyEngine;

struct Setting {
  const char* name;
  llm::testing::TinyArch arch;
  bool flash_attention;
  int threads;
};

class DeterminismTest : public ::testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    ASSERT_OK(llm::testing::WriteTinyModel(dir_.File("tiny.gguf"),
                                           {.arch = GetParam().arch}));
    ASSERT_OK_AND_ASSIGN(
        engine_,
        Engine::Create({.model_path = dir_.File("tiny.gguf"),
                        .store_dir = dir_.File("store"),
                        .context_tokens = 2048,
                        .threads = GetParam().threads,
                        .flash_attention = GetParam().flash_attention}));
  }

  // A token is about a character here.
  static DeterminismOptions Options() {
    DeterminismOptions options;
    options.orders = 2;
    options.concurrent_rounds = 1;
    options.schema_tokens = 300;
    options.shape = {.history_words = 1, .generated_tokens = 4};
    return options;
  }

  ScopedTempDir dir_;
  std::unique_ptr<Engine> engine_;
};

TEST_P(DeterminismTest, NeighboursChangeNoBitOfASession) {
  ASSERT_OK_AND_ASSIGN(const DeterminismResult result,
                       RunDeterminismBench(*engine_, Options()));
  EXPECT_TRUE(result.tokens_equal);
  EXPECT_TRUE(result.logits_hash_equal);
  EXPECT_THAT(result.differences, IsEmpty());
  ASSERT_EQ(result.sessions.size(), 8U);
  int64_t rows = 0;
  for (const DeterminismSession& session : result.sessions) {
    rows += session.alone.rows;
    EXPECT_EQ(session.alone.step_hashes.size(),
              static_cast<size_t>(session.steps));
  }
  EXPECT_EQ(result.rows_compared, 3 * rows);
  // What the sessions did differs, or equal hashes would say nothing.
  for (size_t i = 1; i < result.sessions.size(); ++i) {
    EXPECT_NE(result.sessions[i].alone.logits_sha256,
              result.sessions[0].alone.logits_sha256);
  }
  // The hashes can see a neighbour. Flash attention leaves out masked cells one
  // by one, so a few of a neighbour's change nothing there.
  EXPECT_EQ(result.shared_context.logits_hash_equal,
            GetParam().flash_attention);
  EXPECT_LT(result.shared_context.largest_difference, 0.1);
}

INSTANTIATE_TEST_SUITE_P(
    Settings, DeterminismTest,
    ::testing::Values(
        Setting{"llama_two_threads", llm::testing::TinyArch::kLlama, false, 2},
        Setting{"qwen2_flash", llm::testing::TinyArch::kQwen2, true, 1},
        Setting{"gemma3_window", llm::testing::TinyArch::kGemma3, false, 1}),
    [](const auto& param_info) { return std::string(param_info.param.name); });

// Each session alone, at two thread counts: which sessions' bits differ.
Result<std::vector<std::string>> DiffersByThreads(bool flash_attention) {
  const ScopedTempDir dir;
  NEXUS_RETURN_IF_ERROR(llm::testing::WriteTinyModel(
      dir.File("tiny.gguf"), {.arch = llm::testing::TinyArch::kQwen2}));
  std::vector<DeterminismResult> results;
  for (const int threads : {1, 2}) {
    NEXUS_ASSIGN_OR_RETURN(
        const auto engine,
        Engine::Create({.model_path = dir.File("tiny.gguf"),
                        .store_dir = dir.File("store"),
                        .context_tokens = 2048,
                        .threads = threads,
                        .flash_attention = flash_attention}));
    DeterminismOptions options;
    options.sessions = 3;
    options.orders = 0;
    options.concurrent_rounds = 0;
    options.schema_tokens = 400;
    options.shape = {.history_words = 100, .generated_tokens = 4};
    NEXUS_ASSIGN_OR_RETURN(DeterminismResult result,
                           RunDeterminismBench(*engine, options));
    results.push_back(std::move(result));
  }
  std::vector<std::string> differ;
  for (size_t i = 0; i < results[0].sessions.size(); ++i) {
    const DeterminismSession& one = results[0].sessions[i];
    if (one.alone.logits_sha256 != results[1].sessions[i].alone.logits_sha256) {
      differ.push_back(one.name);
    }
  }
  return differ;
}

TEST(DeterminismThreadsTest, ThreadCountKeepsTheBitsWithoutFlashAttention) {
  ASSERT_OK_AND_ASSIGN(const auto differ, DiffersByThreads(false));
  EXPECT_THAT(differ, IsEmpty());
}

// From 512 cells on the engine's flash attention of a single token adds up a
// share of the cells a thread: the thread count is part of the promise.
TEST(DeterminismThreadsTest, ThreadCountChangesBitsOfFlashAttention) {
  ASSERT_OK_AND_ASSIGN(const auto differ, DiffersByThreads(true));
  EXPECT_THAT(differ, Not(IsEmpty()));
}

DeterminismSession SampleSession() {
  DeterminismSession session;
  session.name = "splice 1";
  session.steps = 3;
  session.alone.tokens = {7, 11};
  session.alone.step_hashes = {1, 2, 3};
  session.alone.logits_sha256[0] = 9;
  session.alone.rows = 4;
  return session;
}

TEST(CompareTracesTest, EqualTracesAreEqual) {
  const DeterminismSession session = SampleSession();
  DeterminismResult result;
  CompareTraces(session, session.alone, "order 1", &result);
  EXPECT_TRUE(result.tokens_equal && result.logits_hash_equal);
  EXPECT_EQ(result.rows_compared, 4);
  EXPECT_THAT(result.differences, IsEmpty());
}

TEST(CompareTracesTest, NamesTheFirstStepThatDiffers) {
  const DeterminismSession session = SampleSession();
  ScriptTrace other = session.alone;
  other.step_hashes[1] = 5;
  other.logits_sha256[0] = 8;
  DeterminismResult result;
  CompareTraces(session, other, "order 2", &result);
  EXPECT_TRUE(result.tokens_equal);
  EXPECT_FALSE(result.logits_hash_equal);
  EXPECT_THAT(result.differences,
              ElementsAre("splice 1, order 2: step 2 of 3 is the first that "
                          "differs"));
}

TEST(CompareTracesTest, OtherTokensAreADifference) {
  const DeterminismSession session = SampleSession();
  ScriptTrace other = session.alone;
  other.tokens.back() = 12;
  DeterminismResult result;
  CompareTraces(session, other, "order 1", &result);
  EXPECT_FALSE(result.tokens_equal);
  EXPECT_TRUE(result.logits_hash_equal);
  EXPECT_EQ(result.differences.size(), 1U);
}

TEST(DeterminismOptionsTest, RefusesCountsThatMeanNothing) {
  ASSERT_OK_AND_ASSIGN(auto tiny, TinyEngine::Create({}));
  for (const auto& [sessions, orders] : {std::pair{0, 1}, {-1, 1}, {8, -1}}) {
    DeterminismOptions options;
    options.sessions = sessions;
    options.orders = orders;
    EXPECT_EQ(RunDeterminismBench(tiny->engine(), options).status().code(),
              StatusCode::kInvalidArgument);
  }
}

TEST(DeterminismOptionsTest, StopsWhenCancelled) {
  ASSERT_OK_AND_ASSIGN(auto tiny, TinyEngine::Create({}));
  const std::atomic<bool> cancel{true};
  DeterminismOptions options;
  options.cancel = &cancel;
  const auto result = RunDeterminismBench(tiny->engine(), options);
  EXPECT_EQ(result.status().code(), StatusCode::kCancelled);
  EXPECT_THAT(result.status().message(), HasSubstr("interrupted"));
}

}  // namespace
}  // namespace nexus::engine
