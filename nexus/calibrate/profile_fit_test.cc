#include "nexus/calibrate/profile_fit.h"

#include <vector>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"

namespace nexus::calibrate {
namespace {

using engine::Budget;
using engine::RepairRow;
using ::testing::HasSubstr;
using ::testing::Not;

FidelityCell Cell(int depth, kv::RepairPolicy policy, double share, double kl,
                  double top1 = 1) {
  FidelityCell cell;
  cell.depth = depth;
  cell.arm = {policy, share, 4};
  cell.recompute_share = share;
  cell.kl_mean = kl;
  cell.kl_low = kl;
  cell.kl_high = kl;
  cell.top1 = top1;
  cell.ttft_ratio = 5;
  cell.n = 12;
  cell.positions = 400;
  return cell;
}

FidelityCell Noise(int depth, double kl) {
  FidelityCell cell = Cell(depth, kv::RepairPolicy::kNone, 0, kl);
  cell.noise = true;
  return cell;
}

constexpr auto kNone = kv::RepairPolicy::kNone;
constexpr auto kSensitivity = kv::RepairPolicy::kSensitivity;

const RepairRow& RowOf(const engine::RepairProfile& profile, Budget budget,
                       int max_depth) {
  for (const RepairRow& row : profile.rows) {
    if (row.budget == budget && row.max_depth == max_depth) return row;
  }
  ADD_FAILURE() << "no row";
  return profile.rows.front();
}

TEST(ProfileFitTest, TakesTheCheapestThatKeepsTheBudgetAtBothEnds) {
  const std::vector<FidelityCell> cells = {
      Noise(256, 0.0005),
      Cell(256, kNone, 0, 0.01),
      Cell(256, kSensitivity, 0.15, 0.002),
      Cell(256, kSensitivity, 0.22, 0.0009),
      Noise(1024, 0.0005),
      Cell(1024, kNone, 0, 0.02),
      Cell(1024, kSensitivity, 0.15, 0.004),
      Cell(1024, kSensitivity, 0.22, 0.0012),
  };
  ASSERT_OK_AND_ASSIGN(const engine::RepairProfile profile,
                       FitProfile(cells, {.compile_contexts = 4}));
  EXPECT_DOUBLE_EQ(profile.noise_kl, 0.0005);
  EXPECT_EQ(RowOf(profile, Budget::kBalanced, 256).share, 0.15);
  // 0.15 fails at the far end.
  EXPECT_EQ(RowOf(profile, Budget::kBalanced, 1024).share, 0.22);
  EXPECT_EQ(RowOf(profile, Budget::kStrict, 256).share, 0.22);
  const RepairRow& deep = RowOf(profile, Budget::kStrict, 1024);
  EXPECT_TRUE(deep.prefill);
  EXPECT_THAT(deep.reason, HasSubstr("0.0012"));
  EXPECT_FALSE(RowOf(profile, Budget::kFast, 1024).prefill);
  EXPECT_EQ(RowOf(profile, Budget::kFast, 1024).policy, kNone);
  EXPECT_EQ(profile.anchored_bound, 0);
}

TEST(ProfileFitTest, ADepthInBetweenIsNoBetterThanItsWorseNeighbour) {
  // Good at 1024, bad at 256: what lies between may be bad.
  const std::vector<FidelityCell> cells = {
      Noise(256, 0.0005), Cell(256, kNone, 0, 0.09), Noise(1024, 0.0005),
      Cell(1024, kNone, 0, 0.0001)};
  ASSERT_OK_AND_ASSIGN(const engine::RepairProfile profile,
                       FitProfile(cells, {.compile_contexts = 4}));
  EXPECT_TRUE(RowOf(profile, Budget::kFast, 1024).prefill);
}

TEST(ProfileFitTest, LowAgreementIsRefusedWhateverTheKl) {
  const std::vector<FidelityCell> cells = {Noise(256, 0.0005),
                                           Cell(256, kNone, 0, 0.0001, 0.98)};
  ASSERT_OK_AND_ASSIGN(const engine::RepairProfile profile,
                       FitProfile(cells, {.compile_contexts = 4}));
  EXPECT_TRUE(RowOf(profile, Budget::kBalanced, 256).prefill);
  EXPECT_FALSE(RowOf(profile, Budget::kFast, 256).prefill);
}

TEST(ProfileFitTest, AWideIntervalKeepsNoBudget) {
  FidelityCell wide = Cell(256, kNone, 0, 0.002);
  wide.kl_high = 0.0045;
  const std::vector<FidelityCell> cells = {
      Noise(256, 0.0005), wide, Cell(256, kSensitivity, 0.22, 0.0025)};
  ASSERT_OK_AND_ASSIGN(const engine::RepairProfile profile,
                       FitProfile(cells, {.compile_contexts = 4}));
  EXPECT_EQ(RowOf(profile, Budget::kBalanced, 256).share, 0.22);
  const std::vector<FidelityCell> alone = {Noise(256, 0.0005), wide};
  ASSERT_OK_AND_ASSIGN(const engine::RepairProfile none,
                       FitProfile(alone, {.compile_contexts = 4}));
  const RepairRow& row = RowOf(none, Budget::kBalanced, 256);
  EXPECT_TRUE(row.prefill);
  EXPECT_THAT(row.reason, HasSubstr("up to 0.0045 by 12 trials"));
  EXPECT_EQ(none.anchored_bound, 0);
}

TEST(ProfileFitTest, TheOracleIsNoCandidate) {
  const std::vector<FidelityCell> cells = {
      Noise(256, 0.0005), Cell(256, kNone, 0, 0.01),
      Cell(256, kv::RepairPolicy::kDeviation, 0.1, 0.0001)};
  ASSERT_OK_AND_ASSIGN(const engine::RepairProfile profile,
                       FitProfile(cells, {.compile_contexts = 4}));
  EXPECT_TRUE(RowOf(profile, Budget::kStrict, 256).prefill);
}

// What a reason shows must be what kept the budget from being kept, also where
// another arm or the other end has the larger KL.
TEST(ProfileFitTest, AReasonNamesTheLimitThatIsBroken) {
  const std::vector<FidelityCell> cells = {
      Noise(256, 0.0005), Cell(256, kNone, 0, 0.004, 0.97), Noise(1024, 0.0005),
      Cell(1024, kNone, 0, 0.007, 0.994)};
  ASSERT_OK_AND_ASSIGN(const engine::RepairProfile profile,
                       FitProfile(cells, {.compile_contexts = 4}));
  const RepairRow& row = RowOf(profile, Budget::kFast, 1024);
  ASSERT_TRUE(row.prefill);
  EXPECT_THAT(row.reason, HasSubstr("top-1 97.0 %"));
  EXPECT_THAT(row.reason, HasSubstr("limit 98.0 %"));
  EXPECT_THAT(row.reason, HasSubstr("depth 256"));
  EXPECT_THAT(row.reason, Not(HasSubstr("KL")));
  // Both broken: both are named.
  const RepairRow& strict = RowOf(profile, Budget::kStrict, 256);
  EXPECT_THAT(strict.reason, HasSubstr("KL 0.0040"));
  EXPECT_THAT(strict.reason, HasSubstr("limit 0.0010"));
  EXPECT_THAT(strict.reason, HasSubstr("top-1"));
}

TEST(ProfileFitTest, EveryKindOfBlockGetsRowsOfItsOwn) {
  std::vector<FidelityCell> cells = {
      Noise(256, 0.0005), Cell(256, kNone, 0, 0.002), Cell(256, kNone, 0, 0.03),
      Cell(256, kNone, 0, 0.01)};
  cells[2].arm.contexts = 1;
  cells[3].arm.storage = {kv::RowStorage::kQ8, kv::RowStorage::kQ8};
  FidelityCell shared = Cell(256, kNone, 0, 0.001);
  shared.arm.shared = 0.5;
  cells.push_back(shared);
  ASSERT_OK_AND_ASSIGN(const engine::RepairProfile profile,
                       FitProfile(cells, {.compile_contexts = 4}));
  const auto fast = [&](const engine::RepairProfile::Place& place) {
    auto of_fast = place;
    of_fast.budget = Budget::kFast;
    of_fast.depth = 200;
    const auto row = profile.Find(of_fast);
    return row.ok() ? (*row)->kl_mean : -1;
  };
  EXPECT_EQ(fast({.contexts = 4}), 0.002);
  EXPECT_EQ(fast({.contexts = 9}), 0.002);
  EXPECT_EQ(fast({.contexts = 3}), 0.03);  // the nearest below
  EXPECT_EQ(fast({.contexts = 4, .storage = cells[3].arm.storage}), 0.01);
  EXPECT_EQ(fast({.contexts = 3, .storage = cells[3].arm.storage}), -1);
  EXPECT_EQ(fast({.shared = 0.6}), 0.001);
}

TEST(ProfileFitTest, NothingMeasuredIsAnError) {
  EXPECT_EQ(FitProfile({}, {}).status().code(), StatusCode::kInvalidArgument);
  const std::vector<FidelityCell> cells = {Noise(256, 0.0005),
                                           Cell(256, kNone, 0, 0.01)};
  EXPECT_FALSE(FitProfile(cells, {.compile_contexts = 8}).ok());
}

}  // namespace
}  // namespace nexus::calibrate
