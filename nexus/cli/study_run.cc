#include "nexus/cli/study_run.h"

#include <map>
#include <utility>

#include "nexus/calibrate/trial_log.h"
#include "nexus/cli/interrupt.h"
#include "nexus/cli/terminal.h"

namespace nexus::cli {

using calibrate::Trial;
using calibrate::TrialLog;

namespace {

Result<std::vector<Trial>> RunOwn(const engine::Engine& engine,
                                  calibrate::StudyOptions options,
                                  const StudyRun& run) {
  NEXUS_ASSIGN_OR_RETURN(
      TrialLog log,
      calibrate::OpenTrialLog(FileSystem::Default(), run.trials_file,
                              calibrate::StudyIdentity(engine, options)));
  if (run.report_only) return calibrate::SortedTrials(log);
  ProgressLine line(run.title);
  options.progress = [&](int done, int total, const std::string& what) {
    line.Update(total > 0 ? static_cast<double>(done) / total : 0, what);
  };
  options.cancel = &Interrupted();
  const std::map<std::string, Trial> done = log.trials();
  const Status status = calibrate::RunFidelityStudy(
      engine, options, done,
      [&](Trial trial) { return log.Append(std::move(trial)); });
  line.Done();
  if (!status.ok()) return status;
  return calibrate::SortedTrials(log);
}

}  // namespace

Result<std::vector<Trial>> RunStudy(const engine::Engine& engine,
                                    const calibrate::StudyOptions& options,
                                    const StudyRun& run) {
  const Json identity = calibrate::StudyIdentity(engine, options);
  std::vector<Trial> others;
  // Before hours are measured: a wrong file is told at once.
  for (const std::string& path : run.also) {
    NEXUS_ASSIGN_OR_RETURN(
        std::vector<Trial> more,
        calibrate::ReadTrialsOfAnyArms(FileSystem::Default(), path, identity));
    calibrate::AddTrials(std::move(more), &others);
  }
  NEXUS_ASSIGN_OR_RETURN(std::vector<Trial> all, RunOwn(engine, options, run));
  calibrate::AddTrials(std::move(others), &all);
  return all;
}

}  // namespace nexus::cli
