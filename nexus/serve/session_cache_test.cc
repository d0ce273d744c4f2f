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

class SharedPrefixTest : public testing::Test {
 protected:
  // A micro-batch of the engine.
  static constexpr size_t kBatch = 512;

  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(tiny_, TinyEngine::Create({.context_tokens = 2048}));
  }

  // `common` tokens that all conversations of the test have, and `own` others.
  static Tokens Conversation(size_t common, size_t own, int seed) {
    Tokens tokens;
    for (size_t i = 0; i < common; ++i) {
      tokens.push_back(static_cast<llm::Token>(3 + i % 97));
    }
    for (size_t i = 0; i < own; ++i) {
      tokens.push_back(static_cast<llm::Token>(
          100 + (i * 7 + static_cast<size_t>(seed)) % 50));
    }
    return tokens;
  }

  // As the service answers: what the session lacks is decoded in one call.
  static Result<std::vector<float>> Answer(engine::Session& session,
                                           const Tokens& prompt) {
    NEXUS_RETURN_IF_ERROR(session.TruncateTo(session.ExactPrefix(prompt)));
    NEXUS_RETURN_IF_ERROR(
        session.Append(std::span(prompt).subspan(session.tokens().size()),
                       llm::Logits::kLast));
    return std::vector<float>(session.logits().begin(), session.logits().end());
  }
  Result<std::vector<float>> Alone(const Tokens& prompt) {
    NEXUS_ASSIGN_OR_RETURN(auto session,
                           engine::Session::Create(&tiny_->engine()));
    return Answer(*session, prompt);
  }
  // The second conversation's answer behind the first's, in this cache.
  void ExpectTheSameBits(SessionCache& cache, size_t common, size_t taken) {
    const Tokens first = Conversation(common, 90, 1);
    const Tokens second = Conversation(common, 70, 2);
    ASSERT_OK_AND_ASSIGN(HeldSession * a, cache.Acquire(first, first));
    ASSERT_OK(Answer(*a->session, first).status());
    ASSERT_OK_AND_ASSIGN(HeldSession * b, cache.Acquire(second, second));
    EXPECT_EQ(b->session->tokens().size(), taken);
    ASSERT_OK_AND_ASSIGN(const auto beside, Answer(*b->session, second));
    ASSERT_OK_AND_ASSIGN(const auto alone, Alone(second));
    EXPECT_EQ(beside, alone);
  }

  std::unique_ptr<TinyEngine> tiny_;
};

TEST_F(SharedPrefixTest, ANewSessionTakesWholeBatchesOfAnother) {
  SessionCache cache(&tiny_->engine(), {.max_sessions = 2});
  ExpectTheSameBits(cache, 2 * kBatch + 60, 2 * kBatch);
  EXPECT_EQ(cache.counts().created, 2U);
  EXPECT_EQ(cache.counts().shared_tokens, 2 * kBatch);
}

TEST_F(SharedPrefixTest, ASessionThatIsTakenOverKeepsNoMore) {
  SessionCache cache(&tiny_->engine(), {.max_sessions = 1});
  ExpectTheSameBits(cache, kBatch + 60, kBatch);
  EXPECT_EQ(cache.counts().taken_over, 1U);
}

TEST_F(SharedPrefixTest, LessThanABatchIsDecodedAgain) {
  for (const int sessions : {1, 2}) {
    SessionCache cache(&tiny_->engine(), {.max_sessions = sessions});
    ExpectTheSameBits(cache, kBatch - 1, 0);
  }
}

// Its later batches began where an earlier turn had ended.
TEST_F(SharedPrefixTest, WhatGrewTurnByTurnIsSharedUpToItsFirstTurn) {
  SessionCache cache(&tiny_->engine(), {.max_sessions = 2});
  const Tokens whole = Conversation(3 * kBatch, 0, 1);
  const Tokens turn(whole.begin(), whole.begin() + kBatch + 100);
  ASSERT_OK_AND_ASSIGN(HeldSession * a, cache.Acquire(turn, turn));
  ASSERT_OK(Answer(*a->session, turn).status());
  ASSERT_OK_AND_ASSIGN(a, cache.Acquire(whole, whole));
  ASSERT_OK(Answer(*a->session, whole).status());
  EXPECT_EQ(cache.counts().continued, 1U);
  EXPECT_EQ(a->session->SharedPrefix(whole), kBatch);
  const Tokens other = Conversation(3 * kBatch, 5, 2);
  EXPECT_EQ(a->session->SharedPrefix(other), kBatch);
}

// Nor are cells that came from anywhere but a decode from the beginning.
TEST_F(SharedPrefixTest, OnlyAnEmptySessionTakesCells) {
  ASSERT_OK_AND_ASSIGN(auto from, engine::Session::Create(&tiny_->engine()));
  ASSERT_OK_AND_ASSIGN(auto to, engine::Session::Create(&tiny_->engine()));
  const Tokens prompt = Conversation(kBatch + 10, 0, 1);
  ASSERT_OK(Answer(*from, prompt).status());
  EXPECT_FALSE(to->CopyPrefix(*from, kBatch + 10).ok());
  EXPECT_FALSE(to->CopyPrefix(*from, 2 * kBatch).ok());
  ASSERT_OK(to->CopyPrefix(*from, kBatch));
  EXPECT_FALSE(to->CopyPrefix(*from, kBatch).ok());
  EXPECT_EQ(to->exact_count(), kBatch);
}

}  // namespace
}  // namespace nexus::serve
