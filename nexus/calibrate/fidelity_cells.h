// FidelityCells: trials gathered into cells of one depth and one arm, with
// intervals.
#ifndef NEXUS_CALIBRATE_FIDELITY_CELLS_H_
#define NEXUS_CALIBRATE_FIDELITY_CELLS_H_

#include <span>
#include <string>
#include <vector>

#include "nexus/base/json.h"
#include "nexus/calibrate/fidelity_study.h"

namespace nexus::calibrate {

struct FidelityCell {
  int depth = 0;
  int blocks = 1;
  bool noise = false;
  StudyArm arm;
  double recompute_share = 0;  // mean over the trials
  double runs = 0;             // mean
  double kl_mean = 0;          // over all positions of all trials
  // 95 % interval of kl_mean: bootstrap over trials, since the positions of one
  // trial hang together.
  double kl_low = 0;
  double kl_high = 0;
  double kl_p99 = 0;
  double kl_max = 0;
  double top1 = 0;
  double first_top1 = 0;  // of the first generated token alone
  double ttft_ratio = 0;  // median over trials of prefill / arm
  int n = 0;              // trials
  int positions = 0;
};

// Ordered by depth, then as the arms stand in the trials; noise first. `depth`
// and histories are pooled as asked: a cell holds all trials of one depth.
std::vector<FidelityCell> GatherCells(std::span<const Trial> trials);

struct DriftCorrelation {
  // Mean over trials of rho over a block's tokens.
  double token_sensitivity = 0;
  double token_k_variance = 0;
  // Rho over splices, between what is known before (the sensitivity left
  // unrepaired; the block's mean K variance) and the KL measured.
  double splice_sensitivity = 0;
  double splice_k_variance = 0;
  int trials = 0;
  int splices = 0;
};
DriftCorrelation Correlate(std::span<const Trial> trials);

// "sensitivity 15 %", "none q8", "head 22 % @50 %" (shared history); the
// compile contexts aren't named.
std::string ArmName(const StudyArm& arm);

Json CellToJson(const FidelityCell& cell);

}  // namespace nexus::calibrate

#endif  // NEXUS_CALIBRATE_FIDELITY_CELLS_H_
