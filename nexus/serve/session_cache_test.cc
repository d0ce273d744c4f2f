#include "nexus/serve/session_cache.h"

#include <vector>

#include "nexus/base/test_util.h"
#include "nexus/engine/testing/tiny_engine.h"

namespace nexus::serve {
namespace {

using engine::testing::TinyEngine;
using Tokens = std::vector<llm::Token>;

class SessionCacheTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(tiny_, TinyEngine::Create({.context_tokens = 256}));
  }

  static Result<HeldSession*> Acquire(SessionCache& cache,
                                      const Tokens& conversation) {
    return cache.Acquire(conversation, conversation);
  }

  std::unique_ptr<TinyEngine> tiny_;
};

TEST_F(SessionCacheTest, AConversationFindsItsSessionAgain) {
  SessionCache cache(&tiny_->engine(), {.max_sessions = 3});
  ASSERT_OK_AND_ASSIGN(HeldSession * a, Acquire(cache, Tokens{1, 2, 3}));
  ASSERT_OK_AND_ASSIGN(HeldSession * b, Acquire(cache, Tokens{1, 2, 4}));
  EXPECT_NE(a, b);
  ASSERT_OK_AND_ASSIGN(HeldSession * again,
                       Acquire(cache, Tokens{1, 2, 3, 5, 6}));
  EXPECT_EQ(again, a);
  // The same request once more, and one that was edited.
  ASSERT_OK_AND_ASSIGN(again, Acquire(cache, Tokens{1, 2, 4}));
  EXPECT_EQ(again, b);
  ASSERT_OK_AND_ASSIGN(again, Acquire(cache, Tokens{1, 2}));
  EXPECT_NE(again, a);
  EXPECT_NE(again, b);
  EXPECT_EQ(cache.counts().continued, 2U);
  EXPECT_EQ(cache.counts().created, 3U);
}

TEST_F(SessionCacheTest, TheLongestBeginningWins) {
  SessionCache cache(&tiny_->engine(), {.max_sessions = 3});
  ASSERT_OK_AND_ASSIGN(HeldSession * longer, Acquire(cache, Tokens{1, 2, 3}));
  ASSERT_OK_AND_ASSIGN(HeldSession * shorter, Acquire(cache, Tokens{1, 2}));
  EXPECT_NE(longer, shorter);
  ASSERT_OK_AND_ASSIGN(HeldSession * found, Acquire(cache, Tokens{1, 2, 3, 4}));
  EXPECT_EQ(found, longer);
}

TEST_F(SessionCacheTest, TheMostCellsOfThePromptWin) {
  SessionCache cache(&tiny_->engine(), {.max_sessions = 3});
  ASSERT_OK_AND_ASSIGN(HeldSession * a, Acquire(cache, Tokens{1, 2, 3}));
  ASSERT_OK_AND_ASSIGN(HeldSession * b, Acquire(cache, Tokens{1, 2}));
  const Tokens cells = {9, 8, 7};
  ASSERT_OK(b->session->Append(cells, llm::Logits::kLast));
  // The same conversation, told in a prompt that b has the beginning of.
  ASSERT_OK_AND_ASSIGN(HeldSession * found,
                       cache.Acquire(Tokens{1, 2, 3, 4}, Tokens{9, 8, 7, 6}));
  EXPECT_EQ(found, b);
  EXPECT_NE(found, a);
}

TEST_F(SessionCacheTest, TheLeastRecentlyUsedIsTakenOver) {
  SessionCache cache(&tiny_->engine(), {.max_sessions = 2});
  ASSERT_OK_AND_ASSIGN(HeldSession * a, Acquire(cache, Tokens{1}));
  const uint64_t lease = a->lease;
  ASSERT_OK(Acquire(cache, Tokens{2}));
  ASSERT_OK(Acquire(cache, Tokens{2, 3}));
  EXPECT_EQ(cache.Find(lease), a);
  ASSERT_OK_AND_ASSIGN(HeldSession * c, Acquire(cache, Tokens{4}));
  EXPECT_EQ(c, a);
  EXPECT_EQ(cache.Find(lease), nullptr);
  EXPECT_EQ(cache.counts().taken_over, 1U);
  EXPECT_EQ(cache.counts().held, 2U);
}

TEST_F(SessionCacheTest, CellsBoundTheNumber) {
  SessionCache cache(&tiny_->engine(), {.max_sessions = 8, .max_cells = 600});
  for (llm::Token token = 0; token < 5; ++token) {
    ASSERT_OK(Acquire(cache, Tokens{token}));
  }
  EXPECT_EQ(cache.counts().held, 2U);  // 256 cells each
  SessionCache least(&tiny_->engine(), {.max_sessions = 8, .max_cells = 1});
  ASSERT_OK(Acquire(least, Tokens{1}));
  EXPECT_EQ(least.counts().held, 1U);
}

TEST_F(SessionCacheTest, ADroppedSessionIsNotFoundAgain) {
  SessionCache cache(&tiny_->engine(), {.max_sessions = 2});
  ASSERT_OK_AND_ASSIGN(HeldSession * a, Acquire(cache, Tokens{1}));
  const uint64_t lease = a->lease;
  cache.Drop(lease);
  EXPECT_EQ(cache.Find(lease), nullptr);
  EXPECT_EQ(cache.counts().held, 0U);
}

}  // namespace
}  // namespace nexus::serve
