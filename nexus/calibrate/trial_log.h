// TrialLog: the trials of a study on disk, one JSON line each, so that hours of
// measuring survive a Ctrl-C.
//
// The first line says what was measured: model and settings, arms, texts. A log
// of anything else is refused, never mixed in. The file is replaced as a whole
// with each trial (a trial takes seconds, the file is a few MB), so it is never
// seen half-written.
#ifndef NEXUS_CALIBRATE_TRIAL_LOG_H_
#define NEXUS_CALIBRATE_TRIAL_LOG_H_

#include <map>
#include <string>
#include <vector>

#include "nexus/base/file_system.h"
#include "nexus/base/result.h"
#include "nexus/calibrate/fidelity_study.h"
#include "nexus/engine/engine.h"

namespace nexus::calibrate {

// What must be the same for two trials to be of one study.
Json StudyIdentity(const engine::Engine& engine, const StudyOptions& options);

class TrialLog {
 public:
  // Reads what is there. An empty path keeps the trials in memory only.
  // kIncompatible: the file holds another study, with the first field that
  // differs. kCorruption: path and line.
  static Result<TrialLog> Open(FileSystem& fs, const std::string& path,
                               const Json& identity);

  const std::map<std::string, Trial>& trials() const { return trials_; }
  std::vector<Trial> Sorted() const;  // by depth, then key
  Status Append(Trial trial);

 private:
  TrialLog(FileSystem* fs, std::string path)
      : fs_(fs), path_(std::move(path)) {}

  FileSystem* fs_;
  std::string path_;
  std::string text_;                     // the file, as it is on disk
  std::map<std::string, Trial> trials_;  // by Trial::Key()
};

}  // namespace nexus::calibrate

#endif  // NEXUS_CALIBRATE_TRIAL_LOG_H_
