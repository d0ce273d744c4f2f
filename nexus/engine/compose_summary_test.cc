#include "nexus/engine/compose_summary.h"

#include "gmock/gmock.h"

namespace nexus::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::string_view kArm = "generic:25";

class ComposeSummaryTest : public ::testing::Test {
 protected:
  // One question on a list of its own ten.
  ComposeTrial& Add(int question, std::string_view arm, bool choice_right,
                    std::optional<bool> args_right = std::nullopt) {
    ComposeTrial trial;
    trial.list = "list" + std::to_string(question / 10);
    trial.question = "q" + std::to_string(question);
    trial.arm = arm;
    trial.list_tokens = 600 + 10 * (question / 10);
    trial.tool = choice_right ? "right" : "wrong";
    trial.arguments = "{}";
    trial.choice_right = choice_right;
    trial.args_right = args_right;
    return trials_[trial.Key()] = trial;
  }

  ComposeArmResult Arm() const {
    const std::vector<std::string> arms = {std::string(kArm)};
    return SummarizeCompose(trials_, 5, arms).arms.at(0);
  }

  ComposeTrials trials_;
};

TEST_F(ComposeSummaryTest, CountsPairsAndTestsThem) {
  // Both right 12 times, only the reference 6, only the arm once, neither once.
  for (int i = 0; i < 20; ++i) {
    Add(i, kComposeReference, i < 18, i % 2 == 0);
    Add(i, kArm, i < 12 || i == 18, i % 4 == 0);
  }
  const ComposeArmResult arm = Arm();
  EXPECT_EQ(arm.n, 20);
  EXPECT_EQ(arm.n_args, 20);
  EXPECT_EQ(arm.choice_right, 13);
  EXPECT_EQ(arm.reference_choice_right, 18);
  EXPECT_EQ(arm.args_right, 5);
  EXPECT_EQ(arm.reference_args_right, 10);
  EXPECT_EQ(arm.same_choice, 13);
  // 2 * (C(7,0) + C(7,1)) / 2^7.
  EXPECT_NEAR(arm.mcnemar_p, 0.125, 1e-9);
  // 2 / 2^5.
  EXPECT_NEAR(arm.args_mcnemar_p, 0.0625, 1e-9);
  EXPECT_LT(arm.difference_ci95.low, -0.25);
  EXPECT_GT(arm.difference_ci95.high, -0.25);
  EXPECT_LE(arm.difference_ci95.high, 0.05);
  const Interval wilson = WilsonInterval(13, 20);
  EXPECT_DOUBLE_EQ(arm.choice_ci95.low, wilson.low);
  EXPECT_DOUBLE_EQ(arm.choice_ci95.high, wilson.high);
}

TEST_F(ComposeSummaryTest, PoolsKlOverAllPositionsAndTakesTheFirstApart) {
  for (int i = 0; i < 50; ++i) {
    Add(i, kComposeReference, true);
    ComposeTrial& trial = Add(i, kArm, true);
    trial.kl = {i == 0 ? 5.0 : 1.0, 0, 0, 0};
    trial.first_top1 = i != 0;
  }
  const ComposeArmResult arm = Arm();
  EXPECT_DOUBLE_EQ(arm.kl_mean, 54.0 / 200);
  EXPECT_DOUBLE_EQ(arm.kl_p99, 1);
  EXPECT_DOUBLE_EQ(arm.first_kl, 54.0 / 50);
  EXPECT_DOUBLE_EQ(arm.first_top1, 0.98);
}

// A study that was stopped: the last list has asked some arms only.
TEST_F(ComposeSummaryTest, AnArmIsComparedOnTheQuestionsThatItWasAsked) {
  for (int i = 0; i < 10; ++i) Add(i, kComposeReference, i < 5);
  for (int i = 0; i < 6; ++i) Add(i, kArm, true);
  Add(77, kArm, false);  // its reference is missing
  const ComposeArmResult arm = Arm();
  EXPECT_EQ(arm.n, 6);
  EXPECT_EQ(arm.choice_right, 6);
  EXPECT_EQ(arm.reference_choice_right, 5);
  EXPECT_EQ(arm.n_args, 0);
  const std::vector<std::string> arms = {std::string(kArm)};
  EXPECT_EQ(SummarizeCompose(trials_, 5, arms).reference.n, 10);
}

TEST_F(ComposeSummaryTest, LayingDownIsCountedWhereItWasDone) {
  for (int i = 0; i < 20; ++i) {
    Add(i, kComposeReference, true);
    ComposeTrial& trial = Add(i, kArm, true);
    if (i % 10 != 0) continue;
    trial.laying = ComposeLaying{.ms = i == 0 ? 100.0 : 300.0,
                                 .spliced = 75,
                                 .recomputed = 25,
                                 .notes = {"splice: no block"}};
  }
  const ComposeArmResult arm = Arm();
  EXPECT_EQ(arm.laid_down, 2);
  EXPECT_DOUBLE_EQ(arm.list_ms, 200);
  EXPECT_DOUBLE_EQ(arm.recompute_share, 0.25);
  EXPECT_EQ(arm.most_list_tokens, 610);
  const ComposeBenchResult result = SummarizeCompose(trials_, 5, {});
  EXPECT_EQ(result.lists, 2);
  EXPECT_DOUBLE_EQ(result.list_tokens, 605);
  EXPECT_THAT(result.notes, ElementsAre("splice: no block"));
}

TEST_F(ComposeSummaryTest, ArmsComeAsAskedForElseAllByName) {
  Add(0, kComposeReference, true);
  Add(0, "b:0", true);
  Add(0, "a:0", true);
  const std::vector<std::string> asked = {"b:0", "c:0"};
  const ComposeBenchResult some = SummarizeCompose(trials_, 5, asked);
  ASSERT_EQ(some.arms.size(), 2U);
  EXPECT_EQ(some.arms[0].name, "b:0");
  EXPECT_EQ(some.arms[1].n, 0);
  EXPECT_EQ(some.arms[1].mcnemar_p, 1);
  const ComposeBenchResult all = SummarizeCompose(trials_, 5, {});
  ASSERT_EQ(all.arms.size(), 2U);
  EXPECT_EQ(all.arms[0].name, "a:0");
  EXPECT_THAT(SummarizeCompose({}, 5, {}).arms, IsEmpty());
}

}  // namespace
}  // namespace nexus::engine
