// ProfileFit: measured cells -> the cheapest repair for each budget and depth.
#ifndef NEXUS_CALIBRATE_PROFILE_FIT_H_
#define NEXUS_CALIBRATE_PROFILE_FIT_H_

#include <span>
#include <string>

#include "nexus/calibrate/fidelity_cells.h"
#include "nexus/engine/repair_profile.h"

namespace nexus::calibrate {

struct FitOptions {
  std::string model;
  std::string made;  // date
  kv::Fingerprint fingerprint;
  int compile_contexts = 4;  // of the blocks that the bound P is fitted to
};

// Compiled blocks, by their contexts and storage, and blocks of the
// conversation, by the history that these share, get rows of their own. A row
// covers the depths between two measured
// ones and must keep its budget at both ends: its KL by the upper end of the 95
// % interval, since what a few tools leave says little about the next. Its
// figures are those of the worse end. kDeviation is no candidate: nobody has it
// when a request comes. kInvalidArgument: no cells, or none of a noise floor.
Result<engine::RepairProfile> FitProfile(std::span<const FidelityCell> cells,
                                         const FitOptions& options);

}  // namespace nexus::calibrate

#endif  // NEXUS_CALIBRATE_PROFILE_FIT_H_
