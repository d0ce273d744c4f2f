// TrialLog: the trials of a study on disk (base/json_log.h), by key.
#ifndef NEXUS_CALIBRATE_TRIAL_LOG_H_
#define NEXUS_CALIBRATE_TRIAL_LOG_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "nexus/base/file_system.h"
#include "nexus/base/json_log.h"
#include "nexus/base/result.h"
#include "nexus/calibrate/fidelity_study.h"
#include "nexus/engine/engine.h"

namespace nexus::calibrate {

// What must be the same for two trials to be of one study.
Json StudyIdentity(const engine::Engine& engine, const StudyOptions& options);

// All trials of a finished study, whatever its arms were: to report several
// studies of one model together. `identity` is of any of them. Errors as of
// TrialLog::Open; kNotFound: no such file.
Result<std::vector<Trial>> ReadTrialsOfAnyArms(FileSystem& fs,
                                               const std::string& path,
                                               const Json& identity);

// Puts `more` behind `all`, without what `all` has of the same trial and arm: a
// tool counts once in a cell, or its interval would be too narrow. What is left
// stays a trial of its own, since its times go with its own prefill.
void AddTrials(std::vector<Trial> more, std::vector<Trial>* all);

class TrialLog {
 public:
  // Reads what is there. An empty path keeps the trials in memory only.
  // kIncompatible: the file holds another study, with the first field that
  // differs. kCorruption, kInvalidArgument: path
  // and line.
  static Result<TrialLog> Open(FileSystem& fs, const std::string& path,
                               const Json& identity);

  const std::map<std::string, Trial>& trials() const { return trials_; }
  std::vector<Trial> Sorted() const;  // by depth, then key
  Status Append(Trial trial);

 private:
  explicit TrialLog(JsonLog log) : log_(std::move(log)) {}

  JsonLog log_;
  std::map<std::string, Trial> trials_;  // by Trial::Key()
};

}  // namespace nexus::calibrate

#endif  // NEXUS_CALIBRATE_TRIAL_LOG_H_
