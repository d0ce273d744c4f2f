// Determinism on real, quantised weights. Short: a session of each tier, one
// order, one concurrent round.
#include "nexus/base/test_util.h"
#include "nexus/engine/determinism_bench.h"
#include "nexus/llm/e2e_models_for_test.h"

namespace nexus::engine {
namespace {

class DeterminismE2eTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(engine_,
                         Engine::Create({.model_path = llm::SmolLm2Path(),
                                         .store_dir = dir_.File("store"),
                                         .context_tokens = 1024,
                                         .threads = 1,
                                         .flash_attention = false}));
    options_.schema_tokens = 60;
    options_.shape = {.history_words = 1, .generated_tokens = 3};
  }

  ScopedTempDir dir_;
  std::unique_ptr<Engine> engine_;
  DeterminismOptions options_;
};

TEST_F(DeterminismE2eTest, SessionsOfSmolLm2AreTheSameAloneAndTogether) {
  options_.sessions = 4;
  options_.orders = 1;
  options_.concurrent_rounds = 1;
  ASSERT_OK_AND_ASSIGN(const DeterminismResult result,
                       RunDeterminismBench(*engine_, options_));
  EXPECT_TRUE(result.tokens_equal);
  EXPECT_TRUE(result.logits_hash_equal);
  EXPECT_TRUE(result.differences.empty())
      << ::testing::PrintToString(result.differences);
  EXPECT_EQ(result.sessions.size(), 4U);
}

TEST_F(DeterminismE2eTest, ANeighbourInTheSameContextChangesBits) {
  options_.sessions = 1;
  options_.orders = 0;
  options_.concurrent_rounds = 0;
  ASSERT_OK_AND_ASSIGN(const DeterminismResult result,
                       RunDeterminismBench(*engine_, options_));
  EXPECT_FALSE(result.shared_context.logits_hash_equal);
  EXPECT_GT(result.shared_context.largest_difference, 0);
}

}  // namespace
}  // namespace nexus::engine
