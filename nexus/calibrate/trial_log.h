// TrialLog: the trials of a study on disk (base/keyed_log.h).
#ifndef NEXUS_CALIBRATE_TRIAL_LOG_H_
#define NEXUS_CALIBRATE_TRIAL_LOG_H_

#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/file_system.h"
#include "nexus/base/keyed_log.h"
#include "nexus/base/result.h"
#include "nexus/calibrate/fidelity_study.h"
#include "nexus/engine/engine.h"

namespace nexus::calibrate {

// What must be the same for two trials to be of one study.
Json StudyIdentity(const engine::Engine& engine, const StudyOptions& options);

struct TrialCodec {
  static Json ToJson(const Trial& trial) { return TrialToJson(trial); }
  static Result<Trial> FromJson(const Json& json, std::string_view source) {
    return TrialFromJson(json, source);
  }
  static std::string KeyOf(const Trial& trial) { return trial.Key(); }
};
using TrialLog = KeyedLog<Trial, TrialCodec>;

// Reads what is there. An empty path keeps the trials in memory only.
// kIncompatible: the file holds another study, with the first field that
// differs. kCorruption, kInvalidArgument: path and line.
Result<TrialLog> OpenTrialLog(FileSystem& fs, const std::string& path,
                              const Json& identity);

// By depth, then key.
std::vector<Trial> SortedTrials(const TrialLog& log);

// All trials of a finished study, whatever its arms were: to report several
// studies of one model together. `identity` is of any of them. Errors as of
// OpenTrialLog; kNotFound: no such file.
Result<std::vector<Trial>> ReadTrialsOfAnyArms(FileSystem& fs,
                                               const std::string& path,
                                               const Json& identity);

// Puts `more` behind `all`, without what `all` has of the same trial and arm: a
// tool counts once in a cell, or its interval would be too narrow. What is left
// stays a trial of its own, since its times go with its own prefill.
void AddTrials(std::vector<Trial> more, std::vector<Trial>* all);

}  // namespace nexus::calibrate

#endif  // NEXUS_CALIBRATE_TRIAL_LOG_H_
