// CompositionFit: logs of `nexus bench compose` -> the rows of a profile that
// say where blocks may be spliced side by side.
#ifndef NEXUS_CALIBRATE_COMPOSITION_FIT_H_
#define NEXUS_CALIBRATE_COMPOSITION_FIT_H_

#include <span>
#include <string>
#include <vector>

#include "nexus/base/file_system.h"
#include "nexus/base/result.h"
#include "nexus/engine/compose_trial.h"
#include "nexus/engine/composition.h"
#include "nexus/engine/engine.h"

namespace nexus::calibrate {

// kNotFound; kIncompatible: of another model, or the other attention setting;
// kCorruption, kInvalidArgument: path and line.
Result<std::vector<engine::ComposeStudy>> ReadComposeStudies(
    FileSystem& fs, std::span<const std::string> paths,
    const engine::Engine& engine);

// One row for each length of list, recipe and share, by length; logs of the
// same join. Only arms that a session can do by itself: none that decodes the
// right tool or what a router prefers, and not `given`, whose blocks are
// compiled for one list. kInvalidArgument: logs of the same lists with other
// limits of the arguments.
Result<std::vector<engine::CompositionRow>> FitComposition(
    std::span<const engine::ComposeStudy> studies);

}  // namespace nexus::calibrate

#endif  // NEXUS_CALIBRATE_COMPOSITION_FIT_H_
