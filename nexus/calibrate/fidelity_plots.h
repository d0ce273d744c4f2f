// The pictures of a study: KL by depth, KL by share, speed by depth.
#ifndef NEXUS_CALIBRATE_FIDELITY_PLOTS_H_
#define NEXUS_CALIBRATE_FIDELITY_PLOTS_H_

#include <span>
#include <string>

#include "nexus/calibrate/fidelity_cells.h"

namespace nexus::calibrate {

// One SVG with three panels. Cells of `contexts` compile contexts only.
std::string PlotFidelity(std::span<const FidelityCell> cells,
                         const std::string& title, int contexts);

// The paper's two negative results in one SVG: pure splice over depth (KL and
// the share of changed top-1), and each splice's KL against the two predictors.
std::string PlotNegativeResults(std::span<const Trial> trials,
                                const std::string& title, int contexts);

}  // namespace nexus::calibrate

#endif  // NEXUS_CALIBRATE_FIDELITY_PLOTS_H_
