// Splicing on a real model, small and with the same outcome each time: what the
// whole study measures over hours, as a bound that no change may break.
#include <vector>

#include "gtest/gtest.h"

#include "nexus/base/test_util.h"
#include "nexus/calibrate/fidelity_cells.h"
#include "nexus/calibrate/fidelity_study.h"
#include "nexus/llm/e2e_models_for_test.h"

namespace nexus::calibrate {
namespace {

TEST(FidelityE2eTest, ASpliceOfARealModelStaysNearFullPrefill) {
  ScopedTempDir dir;
  ASSERT_OK_AND_ASSIGN(auto engine,
                       engine::Engine::Create({.model_path = llm::SmolLm2Path(),
                                               .store_dir = dir.File("store"),
                                               .context_tokens = 2048,
                                               .threads = 1,
                                               .flash_attention = false}));
  StudyOptions options;
  options.depths = {256};
  options.tools = 1;
  options.generated_tokens = 24;
  options.arms = {{kv::RepairPolicy::kNone, 0, 2},
                  {kv::RepairPolicy::kSensitivity, 0.3, 2}};
  std::vector<Trial> trials;
  ASSERT_OK(RunFidelityStudy(*engine, options, {}, [&](Trial trial) {
    trials.push_back(std::move(trial));
    return Status::Ok();
  }));
  const std::vector<FidelityCell> cells = GatherCells(trials);
  ASSERT_EQ(cells.size(), 3U);
  // Measured: noise 0.002, both arms 0.004 to 0.006. A wrong rotation, a
  // swapped layer or a stale row gives 0.5 and more.
  EXPECT_LT(cells[0].kl_mean, 0.01) << "noise floor";
  EXPECT_LT(cells[1].kl_mean, 0.03) << "pure splice";
  EXPECT_LT(cells[2].kl_mean, 0.03) << "repaired splice";
  EXPECT_GE(cells[1].top1, 0.9);
  EXPECT_GE(cells[2].top1, 0.9);
  EXPECT_GT(trials.front().rho_sensitivity, 0.4);
}

}  // namespace
}  // namespace nexus::calibrate
