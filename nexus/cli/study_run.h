// A fidelity study as `bench fidelity` and `calibrate` run it: trials kept in a
// file, progress on the terminal, Ctrl-C between trials.
#ifndef NEXUS_CLI_STUDY_RUN_H_
#define NEXUS_CLI_STUDY_RUN_H_

#include <string>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/calibrate/fidelity_study.h"
#include "nexus/engine/engine.h"

namespace nexus::cli {

struct StudyRun {
  std::string title;        // of the progress line
  std::string trials_file;  // empty: kept in memory only
  bool report_only = false;
  // Logs of further studies of the same model, whatever their arms: reported
  // with this one.
  std::vector<std::string> also;
};

// All trials that there are in the end, by depth; those of `also` last.
Result<std::vector<calibrate::Trial>> RunStudy(
    const engine::Engine& engine, const calibrate::StudyOptions& options,
    const StudyRun& run);

}  // namespace nexus::cli

#endif  // NEXUS_CLI_STUDY_RUN_H_
