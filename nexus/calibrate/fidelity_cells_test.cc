#include "nexus/calibrate/fidelity_cells.h"

#include <vector>

#include "gtest/gtest.h"

#include "nexus/base/test_util.h"

namespace nexus::calibrate {
namespace {

TrialArm Arm(kv::RepairPolicy policy, double share, std::vector<double> kl,
             double ttft_ms) {
  TrialArm arm;
  arm.arm = {policy, share, 4};
  arm.ttft_ms = ttft_ms;
  arm.top1.assign(kl.size(), 1);
  arm.kl = std::move(kl);
  return arm;
}

Trial At(int depth, std::vector<TrialArm> arms) {
  Trial trial;
  trial.depth = depth;
  trial.history = "prose";
  trial.tool = "t" + std::to_string(depth);
  trial.prefill_ms = 100;
  trial.arms = std::move(arms);
  return trial;
}

TEST(FidelityCellsTest, PoolsPositionsNotTrials) {
  const auto none = kv::RepairPolicy::kNone;
  const std::vector<Trial> trials = {
      At(256, {Arm(none, 0, {0.1, 0.1, 0.1}, 10)}),
      At(256, {Arm(none, 0, {0.5}, 20)}), At(128, {Arm(none, 0, {0.9}, 50)})};
  const std::vector<FidelityCell> cells = GatherCells(trials);
  ASSERT_EQ(cells.size(), 2U);
  EXPECT_EQ(cells[0].depth, 128);
  EXPECT_EQ(cells[1].depth, 256);
  EXPECT_DOUBLE_EQ(cells[1].kl_mean, 0.2);
  EXPECT_DOUBLE_EQ(cells[1].kl_max, 0.5);
  EXPECT_EQ(cells[1].n, 2);
  EXPECT_EQ(cells[1].positions, 4);
  EXPECT_DOUBLE_EQ(cells[0].ttft_ratio, 2.0);
}

TEST(FidelityCellsTest, KeepsArmsAndNoiseApart) {
  TrialArm noise;
  noise.noise = true;
  noise.kl = {0.001};
  noise.top1 = {1};
  const std::vector<Trial> trials = {
      At(256, {noise, Arm(kv::RepairPolicy::kNone, 0, {0.1}, 10),
               Arm(kv::RepairPolicy::kSensitivity, 0.15, {0.01}, 10),
               Arm(kv::RepairPolicy::kSensitivity, 0.22, {0.001}, 10)})};
  const std::vector<FidelityCell> cells = GatherCells(trials);
  ASSERT_EQ(cells.size(), 4U);
  EXPECT_TRUE(cells[0].noise);
  EXPECT_EQ(cells[3].arm.share, 0.22);
}

TEST(FidelityCellsTest, IntervalHoldsTheMeanAndIsWideForUnlikeTrials) {
  const auto none = kv::RepairPolicy::kNone;
  std::vector<Trial> trials;
  for (int i = 0; i < 20; ++i) {
    trials.push_back(At(256, {Arm(none, 0, {i % 2 == 0 ? 0.0 : 1.0}, 10)}));
  }
  const FidelityCell cell = GatherCells(trials).front();
  EXPECT_LT(cell.kl_low, 0.4);
  EXPECT_GT(cell.kl_high, 0.6);
  EXPECT_LT(cell.kl_low, cell.kl_mean);
  EXPECT_GT(cell.kl_high, cell.kl_mean);
}

TEST(FidelityCellsTest, CorrelatesPredictionWithTheMeasuredKl) {
  std::vector<Trial> trials;
  for (int i = 1; i <= 6; ++i) {
    TrialArm arm = Arm(kv::RepairPolicy::kNone, 0, {0.01 * i}, 10);
    arm.predicted = i * i;
    trials.push_back(At(256, {arm}));
    trials.back().k_variance = -i;
  }
  const DriftCorrelation rho = Correlate(trials);
  EXPECT_DOUBLE_EQ(rho.splice_sensitivity, 1.0);
  EXPECT_DOUBLE_EQ(rho.splice_k_variance, -1.0);
  EXPECT_EQ(rho.splices, 6);
}

TEST(TrialJsonTest, ComesBackAsItWas) {
  Trial trial =
      At(512, {Arm(kv::RepairPolicy::kSensitivity, 0.22, {0.1, 0.2}, 12.5)});
  trial.arms[0].top1 = {1, 0};
  trial.arms[0].runs = 7;
  ASSERT_OK_AND_ASSIGN(const Trial back,
                       TrialFromJson(TrialToJson(trial), "trials.jsonl"));
  EXPECT_EQ(back.Key(), trial.Key());
  EXPECT_EQ(back.arms[0].kl, trial.arms[0].kl);
  EXPECT_EQ(back.arms[0].top1, trial.arms[0].top1);
  EXPECT_EQ(back.arms[0].runs, 7);
  EXPECT_EQ(back.arms[0].arm, trial.arms[0].arm);
}

TEST(TrialJsonTest, SaysWhatIsWrong) {
  Json json = TrialToJson(At(512, {}));
  json.erase("past_tokens");
  const Status status = TrialFromJson(json, "trials.jsonl").status();
  EXPECT_EQ(status.code(), StatusCode::kCorruption);
  EXPECT_NE(status.message().find("trials.jsonl"), std::string::npos);
  EXPECT_NE(status.message().find("past_tokens"), std::string::npos);
}

}  // namespace
}  // namespace nexus::calibrate
