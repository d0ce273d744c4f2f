#include "nexus/kv/recompute_plan.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"

namespace nexus::kv {
namespace {

using ::testing::ElementsAre;

constexpr RepairPolicy kAllPolicies[] = {
    RepairPolicy::kNone,     RepairPolicy::kSuffix,
    RepairPolicy::kHead,     RepairPolicy::kSensitivity,
    RepairPolicy::kHeadTail, RepairPolicy::kDeviation,
    RepairPolicy::kFull};

// Shaped as measured ones: a high head, a high tail, spikes between.
std::vector<float> Profile(int token_count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<float> profile;
  for (int i = 0; i < token_count; ++i) {
    const auto noise = static_cast<float>(random() % 1000) / 1000.0F;
    const bool edge = i < token_count / 10 || i > token_count * 9 / 10;
    profile.push_back(noise * noise + (edge ? 1.0F : 0.0F));
  }
  return profile;
}

std::vector<char> Recomputed(const RecomputePlan& plan, int token_count) {
  std::vector<char> marks(static_cast<size_t>(token_count), 0);
  for (const PlanRun& run : plan.runs) {
    if (run.kind != RunKind::kRecompute) continue;
    for (int i = run.begin; i < run.end; ++i) marks[static_cast<size_t>(i)] = 1;
  }
  return marks;
}

TEST(RecomputePlanTest, DeviationPicksAsSensitivityDoesFromItsOwnRanking) {
  const std::vector<float> sensitivity = Profile(200, 1);
  const std::vector<float> deviation = Profile(200, 2);
  PlanRequest request = {.policy = RepairPolicy::kSensitivity,
                         .token_count = 200,
                         .share = 0.2,
                         .sensitivity = deviation};
  ASSERT_OK_AND_ASSIGN(const RecomputePlan expected, PlanRecompute(request));
  request.policy = RepairPolicy::kDeviation;
  request.sensitivity = sensitivity;
  request.deviation = deviation;
  ASSERT_OK_AND_ASSIGN(const RecomputePlan plan, PlanRecompute(request));
  EXPECT_EQ(plan.runs, expected.runs);
}

TEST(RecomputePlanTest, DeviationRefusesToGuess) {
  EXPECT_EQ(
      PlanRecompute(
          {.policy = RepairPolicy::kDeviation, .token_count = 10, .share = 0.2})
          .status()
          .code(),
      StatusCode::kInvalidArgument);
}

TEST(RecomputePlanTest, CurveIsThePapers) {
  EXPECT_EQ(CurveShare(0, 256, 2048), 0.0);
  EXPECT_EQ(CurveShare(256, 256, 2048), 0.0);
  EXPECT_DOUBLE_EQ(CurveShare(1152, 256, 2048), 0.5);
  EXPECT_EQ(CurveShare(2048, 256, 2048), 1.0);
  EXPECT_EQ(CurveShare(100000, 256, 2048), 1.0);
  EXPECT_EQ(CurveShare(300, 256, 256), 1.0);
}

TEST(RecomputePlanTest, SuffixFollowsTheCurveWithoutAShare) {
  ASSERT_OK_AND_ASSIGN(const RecomputePlan plan,
                       PlanRecompute({.policy = RepairPolicy::kSuffix,
                                      .token_count = 100,
                                      .depth = 1152}));
  EXPECT_THAT(plan.runs, ElementsAre(PlanRun{RunKind::kSplice, 0, 50},
                                     PlanRun{RunKind::kRecompute, 50, 100}));
  EXPECT_EQ(plan.decode_calls, 1);
  EXPECT_DOUBLE_EQ(plan.share, 0.5);
}

TEST(RecomputePlanTest, HeadTailGivesTwoThirdsToTheHead) {
  ASSERT_OK_AND_ASSIGN(const RecomputePlan plan,
                       PlanRecompute({.policy = RepairPolicy::kHeadTail,
                                      .token_count = 100,
                                      .share = 0.3}));
  EXPECT_THAT(plan.runs, ElementsAre(PlanRun{RunKind::kRecompute, 0, 20},
                                     PlanRun{RunKind::kSplice, 20, 90},
                                     PlanRun{RunKind::kRecompute, 90, 100}));
}

TEST(RecomputePlanTest, SensitivityTakesTheMarkedTokens) {
  std::vector<float> profile(100, 0.0F);
  for (size_t i = 40; i < 48; ++i) profile[i] = 1.0F;
  for (size_t i = 50; i < 60; ++i) profile[i] = 2.0F;
  ASSERT_OK_AND_ASSIGN(const RecomputePlan plan,
                       PlanRecompute({.policy = RepairPolicy::kSensitivity,
                                      .token_count = 100,
                                      .share = 0.2,
                                      .sensitivity = profile,
                                      .merge_gap = 4}));
  EXPECT_THAT(plan.runs, ElementsAre(PlanRun{RunKind::kSplice, 0, 40},
                                     PlanRun{RunKind::kRecompute, 40, 60},
                                     PlanRun{RunKind::kSplice, 60, 100}));
}

TEST(RecomputePlanTest, SensitivityWithoutProfileFallsBackToHeadTail) {
  ASSERT_OK_AND_ASSIGN(const RecomputePlan plan,
                       PlanRecompute({.policy = RepairPolicy::kSensitivity,
                                      .token_count = 100,
                                      .share = 0.3}));
  EXPECT_EQ(plan.policy, RepairPolicy::kHeadTail);
  EXPECT_EQ(plan.recomputed_tokens, 30);
}

TEST(RecomputePlanTest, CoversEachTokenOnceInOrderAndKeepsTheBudget) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    const int token_count = static_cast<int>(random() % 700);
    const double share = static_cast<double>(random() % 101) / 100.0;
    const std::vector<float> profile =
        Profile(token_count, static_cast<uint32_t>(random()));
    for (const RepairPolicy policy : kAllPolicies) {
      ASSERT_OK_AND_ASSIGN(
          const RecomputePlan plan,
          PlanRecompute({.policy = policy,
                         .token_count = token_count,
                         .share = share,
                         .sensitivity = profile,
                         .deviation = profile,
                         .merge_gap = static_cast<int>(random() % 10),
                         .min_run = 1 + static_cast<int>(random() % 16)}));
      int next = 0;
      int recomputed = 0;
      int calls = 0;
      for (size_t i = 0; i < plan.runs.size(); ++i) {
        const PlanRun& run = plan.runs[i];
        ASSERT_EQ(run.begin, next);
        ASSERT_GT(run.end, run.begin);
        if (i > 0) {
          ASSERT_NE(run.kind, plan.runs[i - 1].kind);
        }
        next = run.end;
        if (run.kind == RunKind::kRecompute) {
          recomputed += run.size();
          ++calls;
        }
      }
      ASSERT_EQ(next, token_count);
      ASSERT_EQ(recomputed, plan.recomputed_tokens);
      ASSERT_EQ(calls, plan.decode_calls);
      int budget = static_cast<int>(std::floor(share * token_count + 1e-9));
      if (policy == RepairPolicy::kNone) budget = 0;
      if (policy == RepairPolicy::kFull) budget = token_count;
      ASSERT_EQ(recomputed, budget) << RepairPolicyName(policy);
    }
  }
}

TEST(RecomputePlanTest, SensitivityRunsAreWorthTheirCall) {
  for (uint32_t seed = 0; seed < 50; ++seed) {
    const std::vector<float> profile = Profile(500, seed);
    ASSERT_OK_AND_ASSIGN(const RecomputePlan plan,
                         PlanRecompute({.policy = RepairPolicy::kSensitivity,
                                        .token_count = 500,
                                        .share = 0.25,
                                        .sensitivity = profile,
                                        .min_run = 8}));
    for (const PlanRun& run : plan.runs) {
      if (run.kind == RunKind::kRecompute) {
        EXPECT_GE(run.size(), 8);
      }
    }
  }
}

TEST(RecomputePlanTest, MoreShareCoversMoreSensitivity) {
  const std::vector<float> profile = Profile(400, 3);
  double before = -1;
  for (int percent = 0; percent <= 100; percent += 5) {
    ASSERT_OK_AND_ASSIGN(const RecomputePlan plan,
                         PlanRecompute({.policy = RepairPolicy::kSensitivity,
                                        .token_count = 400,
                                        .share = percent / 100.0,
                                        .sensitivity = profile}));
    const std::vector<char> marks = Recomputed(plan, 400);
    double covered = 0;
    for (size_t i = 0; i < marks.size(); ++i) {
      if (marks[i] != 0) covered += static_cast<double>(profile[i]);
    }
    EXPECT_GT(covered, before) << percent;
    before = covered;
  }
}

TEST(RecomputePlanTest, SensitivityBeatsHeadAtEqualBudget) {
  const std::vector<float> profile = Profile(400, 11);
  double covered[2] = {0, 0};
  const RepairPolicy policies[2] = {RepairPolicy::kHead,
                                    RepairPolicy::kSensitivity};
  for (int arm = 0; arm < 2; ++arm) {
    ASSERT_OK_AND_ASSIGN(const RecomputePlan plan,
                         PlanRecompute({.policy = policies[arm],
                                        .token_count = 400,
                                        .share = 0.3,
                                        .sensitivity = profile}));
    const std::vector<char> marks = Recomputed(plan, 400);
    for (size_t i = 0; i < marks.size(); ++i) {
      if (marks[i] != 0) covered[arm] += static_cast<double>(profile[i]);
    }
  }
  EXPECT_GT(covered[1], 1.1 * covered[0]);
}

TEST(RecomputePlanTest, RefusesNonsense) {
  const std::vector<float> short_profile(3, 1.0F);
  const std::vector<float> nan_profile(10,
                                       std::numeric_limits<float>::quiet_NaN());
  const PlanRequest requests[] = {
      {.token_count = 10, .share = 1.01},
      {.token_count = 10, .share = std::nan("")},
      {.token_count = -1},
      {.token_count = 10, .depth = -5},
      {.token_count = 10, .anchored_bound = 300, .full_depth = 200},
      {.token_count = 10, .min_run = 0},
      {.policy = RepairPolicy::kSensitivity,
       .token_count = 10,
       .sensitivity = short_profile},
      {.policy = RepairPolicy::kSensitivity,
       .token_count = 10,
       .sensitivity = nan_profile},
  };
  for (const PlanRequest& request : requests) {
    EXPECT_EQ(PlanRecompute(request).status().code(),
              StatusCode::kInvalidArgument);
  }
}

TEST(RecomputePlanTest, PolicyNamesRoundTrip) {
  for (const RepairPolicy policy : kAllPolicies) {
    EXPECT_EQ(ParseRepairPolicy(RepairPolicyName(policy)), policy);
  }
  EXPECT_EQ(ParseRepairPolicy("sufix"), std::nullopt);
}

}  // namespace
}  // namespace nexus::kv
