#include "nexus/calibrate/trial_log.h"

#include <algorithm>
#include <utility>

#include "nexus/base/hash.h"
#include "nexus/calibrate/calibration_data.h"

namespace nexus::calibrate {
namespace {

constexpr int kTrialVersion = 1;

std::string TextsHash() {
  Sha256 hash;
  for (const std::string_view text :
       {kCalibrationTools, kCalibrationQuestions, kCalibrationProse,
        kCalibrationSource, kCalibrationDialogue, kCalibrationRecords}) {
    hash.Update(text);
  }
  return ToHex(hash.Finish()).substr(0, 16);
}

}  // namespace

Json StudyIdentity(const engine::Engine& engine, const StudyOptions& options) {
  Json arms = Json::array();
  for (const StudyArm& arm : options.arms) {
    Json fields = {kv::RepairPolicyName(arm.policy), arm.share, arm.contexts,
                   arm.shared};
    // Logs of before there was a choice stay of the same study.
    if (!arm.storage.is_as_cached()) {
      fields.push_back(kv::BlockStorageName(arm.storage));
    }
    if (arm.min_run > 0) fields.push_back({{"min_run", arm.min_run}});
    arms.push_back(std::move(fields));
  }
  // Depths and tools may grow from run to run: a trial doesn't depend on which
  // others there are.
  return {{"trial_version", kTrialVersion},
          {"model", ToHex(engine.fingerprint(kv::BlockKind::kSplice).Digest())},
          {"flash_attention", engine.attention().flash_attention},
          {"texts", TextsHash()},
          {"recipe", compile::RecipeName(engine.planner().frame(), 1)},
          {"generated_tokens", options.generated_tokens},
          {"arms", std::move(arms)}};
}

Result<TrialLog> OpenTrialLog(FileSystem& fs, const std::string& path,
                              const Json& identity) {
  return TrialLog::Open(fs, path, identity, "study");
}

Result<std::vector<Trial>> ReadTrialsOfAnyArms(FileSystem& fs,
                                               const std::string& path,
                                               const Json& identity) {
  if (!fs.Exists(path)) return NotFoundError(path + ": no such file");
  Json shared = identity;
  shared.erase("arms");
  NEXUS_ASSIGN_OR_RETURN(const TrialLog log, OpenTrialLog(fs, path, shared));
  return SortedTrials(log);
}

void AddTrials(std::vector<Trial> more, std::vector<Trial>* all) {
  for (Trial& trial : more) {
    const std::string key = trial.Key();
    for (const Trial& have : *all) {
      if (have.Key() != key) continue;
      std::erase_if(trial.arms, [&](const TrialArm& arm) {
        return std::any_of(have.arms.begin(), have.arms.end(),
                           [&](const TrialArm& other) {
                             return arm.noise == other.noise &&
                                    (arm.noise || arm.arm == other.arm);
                           });
      });
    }
    if (!trial.arms.empty()) all->push_back(std::move(trial));
  }
}

std::vector<Trial> SortedTrials(const TrialLog& log) {
  std::vector<Trial> sorted;
  for (const auto& [key, trial] : log.trials()) sorted.push_back(trial);
  std::stable_sort(
      sorted.begin(), sorted.end(),
      [](const Trial& a, const Trial& b) { return a.depth < b.depth; });
  return sorted;
}

}  // namespace nexus::calibrate
