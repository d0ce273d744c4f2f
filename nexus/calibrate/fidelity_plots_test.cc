#include "nexus/calibrate/fidelity_plots.h"

#include <vector>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"

namespace nexus::calibrate {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TrialArm Arm(const StudyArm& arm, double kl) {
  return {.arm = arm,
          .recompute_share = arm.share,
          .ttft_ms = 100,
          .kl = {kl, kl / 2},
          .top1 = {1, 0},
          .predicted = arm.shared == 0 ? kl : 0};
}

std::vector<Trial> Trials() {
  std::vector<Trial> trials;
  for (const int depth : {256, 1024, 4096}) {
    Trial trial = {.depth = depth, .tool = "a", .prefill_ms = 900};
    trial.k_variance = depth;
    trial.arms = {Arm({}, 1e-5 * depth), {.noise = true, .kl = {1e-4, 1e-4}}};
    trial.arms.back().top1 = {1, 1};
    trials.push_back(trial);
  }
  return trials;
}

// Everything that a study may compare besides plain compiled blocks.
std::vector<StudyArm> OtherKinds() {
  StudyArm shared = {.shared = 0.5};
  StudyArm stored;
  stored.storage = {kv::RowStorage::kQ8, kv::RowStorage::kQ8};
  StudyArm runs;
  runs.min_run = 1;
  return {shared, {.shared = 0.9}, stored, runs, {.contexts = 1}};
}

// A series that mixed them would go back and forth between two kinds of block.
TEST(FidelityPlotsTest, NegativeResultsAreOfPlainCompiledBlocksOnly) {
  const std::vector<Trial> plain = Trials();
  std::vector<Trial> mixed = plain;
  for (Trial& trial : mixed) {
    for (const StudyArm& kind : OtherKinds()) {
      trial.arms.push_back(Arm(kind, 0.5));
    }
  }
  const std::string svg = PlotNegativeResults(plain, "t", 4);
  EXPECT_THAT(svg, HasSubstr("KL mean"));
  EXPECT_EQ(PlotNegativeResults(mixed, "t", 4), svg);
}

TEST(FidelityPlotsTest, SharesAreDrawnWhereSomeWereMeasured) {
  std::vector<Trial> trials = Trials();
  const auto plot = [&] { return PlotFidelity(GatherCells(trials), "t", 4); };
  EXPECT_THAT(plot(), Not(HasSubstr("KL by share")));
  for (Trial& trial : trials) {
    trial.arms.push_back(
        Arm({.policy = kv::RepairPolicy::kSensitivity, .share = 0.22}, 1e-3));
  }
  EXPECT_THAT(plot(), HasSubstr("KL by share"));
}

}  // namespace
}  // namespace nexus::calibrate
