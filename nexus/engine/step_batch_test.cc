#include "nexus/engine/step_batch.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <thread>
#include <vector>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/engine/session.h"
#include "nexus/engine/testing/tiny_engine.h"
#include "nexus/llm/testing/kv_test_util.h"

namespace nexus::engine {
namespace {

using llm::Token;
using llm::testing::LargestDifference;
using testing::SampleConversation;
using testing::TinyEngine;

constexpr int kSteps = 8;
constexpr double kRounding = 0.02;  // as in sequence_copy_test.cc

// What a session samples is given, so that rounding can't change its way.
Token StepToken(int session, int step) { return 20 + session * 31 + step; }

std::vector<float> Copy(std::span<const float> row) {
  return {row.begin(), row.end()};
}

class StepBatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(tiny_, TinyEngine::Create({.context_tokens = 1024}));
  }

  std::unique_ptr<StepBatch> NewBatch(int members) {
    auto batch = StepBatch::Create(&tiny_->engine(), members);
    EXPECT_OK(batch.status());
    return batch.ok() ? *std::move(batch) : nullptr;
  }
  // Behind a prompt of its own.
  std::unique_ptr<Session> NewSession(int number) {
    auto session = Session::Create(&tiny_->engine());
    EXPECT_OK(session.status());
    const auto plan = tiny_->engine().planner().PlanAnswer(
        SampleConversation("Question " + std::to_string(number) + "."));
    EXPECT_OK(plan.status());
    EXPECT_OK((*session)->Prepare(*plan, {}).status());
    return *std::move(session);
  }
  // The rows behind each of its steps.
  static Result<std::vector<std::vector<float>>> Steps(Session& session,
                                                       int number,
                                                       int steps = kSteps) {
    std::vector<std::vector<float>> rows = {Copy(session.logits())};
    for (int step = 0; step < steps; ++step) {
      NEXUS_RETURN_IF_ERROR(session.Step(StepToken(number, step)));
      rows.push_back(Copy(session.logits()));
    }
    return rows;
  }
  // `count` threads, each with a session that has the turn first.
  void SideBySide(StepBatch& batch, int count,
                  const std::function<void(int, Session&)>& work) {
    std::vector<std::thread> threads;
    for (int number = 0; number < count; ++number) {
      threads.emplace_back([&, number] {
        const Turn turn(&batch);
        auto session = NewSession(number);
        session->UseBatch(&batch);
        work(number, *session);
        session->LeaveBatch();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  std::unique_ptr<TinyEngine> tiny_;
};

TEST_F(StepBatchTest, SessionsGenerateTogetherAsEachAlone) {
  constexpr int kSessions = 4;
  std::vector<std::vector<std::vector<float>>> alone;
  for (int number = 0; number < kSessions; ++number) {
    auto session = NewSession(number);
    ASSERT_OK_AND_ASSIGN(auto rows, Steps(*session, number));
    alone.push_back(std::move(rows));
  }
  const auto batch = NewBatch(kSessions);
  std::vector<std::vector<std::vector<float>>> together(kSessions);
  SideBySide(*batch, kSessions, [&](int number, Session& session) {
    // Some answers are longer than others.
    const auto rows = Steps(session, number, kSteps - number);
    ASSERT_OK(rows.status());
    together[static_cast<size_t>(number)] = *rows;
  });
  for (size_t number = 0; number < kSessions; ++number) {
    ASSERT_EQ(together[number].size(), kSteps + 1 - number);
    // The prompt is decoded as ever.
    EXPECT_EQ(together[number][0], alone[number][0]);
    for (size_t row = 1; row < together[number].size(); ++row) {
      EXPECT_LT(LargestDifference(together[number][row], alone[number][row]),
                kRounding)
          << "session " << number << ", step " << row;
    }
  }
  const StepBatchCounts counts = batch->counts();
  EXPECT_EQ(counts.tokens, 8 + 7 + 6 + 5);
  EXPECT_LT(counts.decodes, counts.tokens);
}

TEST_F(StepBatchTest, WhatIsAppendedStandsBehindTheSteps) {
  const std::vector<Token> more = {50, 51, 52};
  auto alone = NewSession(0);
  std::vector<Token> all = {StepToken(0, 0), StepToken(0, 1)};
  all.insert(all.end(), more.begin(), more.end());
  ASSERT_OK(alone->Append(all, llm::Logits::kLast));

  const auto batch = NewBatch(2);
  SideBySide(*batch, 1, [&](int number, Session& session) {
    const int room = session.room();
    ASSERT_OK(Steps(session, number, 2).status());
    EXPECT_EQ(session.room(), room - 2);
    ASSERT_OK(session.Append(more, llm::Logits::kLast));
    EXPECT_EQ(
        std::vector<Token>(session.tokens().begin(), session.tokens().end()),
        std::vector<Token>(alone->tokens().begin(), alone->tokens().end()));
    EXPECT_EQ(session.exact_count(), session.tokens().size());
    EXPECT_EQ(Copy(session.logits()), Copy(alone->logits()));
    // And into the batch again.
    ASSERT_OK(Steps(session, number, 1).status());
  });
}

TEST_F(StepBatchTest, LeavingForgetsTheSteps) {
  const auto batch = NewBatch(2);
  SideBySide(*batch, 1, [&](int number, Session& session) {
    const int room = session.room();
    const size_t tokens = session.tokens().size();
    ASSERT_OK(Steps(session, number).status());
    session.LeaveBatch();
    EXPECT_EQ(session.room(), room);
    EXPECT_EQ(session.tokens().size(), tokens);
    EXPECT_OK(session.Append(std::vector<Token>{50}, llm::Logits::kLast));
  });
}

TEST_F(StepBatchTest, WithoutAPlaceASessionDecodesAlone) {
  const auto batch = NewBatch(1);
  SideBySide(*batch, 3, [&](int number, Session& session) {
    const auto rows = Steps(session, number);
    ASSERT_OK(rows.status());
    EXPECT_EQ(rows->size(), static_cast<size_t>(kSteps + 1));
  });
}

TEST_F(StepBatchTest, ACancelledSessionDoesntEndTheOthers) {
  const auto batch = NewBatch(3);
  SideBySide(*batch, 3, [&](int number, Session& session) {
    ASSERT_OK(Steps(session, number, 2).status());
    if (number == 1) {
      session.context().Cancel();
      EXPECT_EQ(session.Step(30).code(), StatusCode::kCancelled);
      session.context().ResetCancel();
      return;
    }
    EXPECT_OK(Steps(session, number).status());
  });
}

}  // namespace
}  // namespace nexus::engine
