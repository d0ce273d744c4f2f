// Determinism on real, quantised weights. Short: a session of each tier, one
// order, one concurrent round.
#include "nexus/base/test_util.h"
#include "nexus/engine/determinism_bench.h"
#include "nexus/llm/e2e_models_for_test.h"

namespace nexus::engine {
namespace {

TEST(DeterminismE2eTest, SessionsOfSmolLm2AreTheSameAloneAndTogether) {
  const ScopedTempDir dir;
  ASSERT_OK_AND_ASSIGN(const auto engine,
                       Engine::Create({.model_path = llm::SmolLm2Path(),
                                       .store_dir = dir.File("store"),
                                       .context_tokens = 1024,
                                       .threads = 1,
                                       .flash_attention = false}));
  DeterminismOptions options;
  options.sessions = 4;
  options.orders = 1;
  options.concurrent_rounds = 1;
  options.schema_tokens = 60;
  options.shape = {.history_words = 1, .generated_tokens = 3};
  ASSERT_OK_AND_ASSIGN(const DeterminismResult result,
                       RunDeterminismBench(*engine, options));
  EXPECT_TRUE(result.tokens_equal);
  EXPECT_TRUE(result.logits_hash_equal);
  EXPECT_TRUE(result.differences.empty())
      << ::testing::PrintToString(result.differences);
  EXPECT_EQ(result.sessions.size(), 4U);
  EXPECT_FALSE(result.shared_context.logits_hash_equal);
}

}  // namespace
}  // namespace nexus::engine
