#include "nexus/calibrate/study_arm.h"

#include <charconv>
#include <cstdlib>

namespace nexus::calibrate {
namespace {

// A percentage between 0 and 100, both excluded. Not `> 100`: NaN would pass.
bool ParsePercent(const std::string& text, double* percent) {
  char* end = nullptr;
  *percent = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0' && *percent > 0 && *percent < 100;
}

}  // namespace

Result<StudyArm> ParseStudyArm(const std::string& text) {
  std::string whole = text.substr(0, text.find('@'));
  const bool has_history = whole.size() < text.size();
  const std::string history = has_history ? text.substr(whole.size() + 1) : "";
  int min_run = 0;
  bool run_fits = true;
  if (const size_t slash = whole.find('/'); slash != std::string::npos) {
    const auto [end, error] = std::from_chars(
        whole.data() + slash + 1, whole.data() + whole.size(), min_run);
    run_fits = error == std::errc() && end == whole.data() + whole.size() &&
               min_run >= 1 && min_run <= 1024;
    whole.resize(slash);
  }
  const size_t colon = whole.find(':');
  const auto policy = kv::ParseRepairPolicy(whole.substr(0, colon));
  StudyArm arm;
  double percent = 0;
  double shared = 0;
  const bool share_fits = colon == std::string::npos ||
                          ParsePercent(whole.substr(colon + 1), &percent);
  const bool shared_fits =
      !has_history || (ParsePercent(history, &shared) &&
                       policy != kv::RepairPolicy::kSensitivity);
  const bool needs_share =
      policy.has_value() && *policy != kv::RepairPolicy::kNone;
  if (!policy.has_value() || *policy == kv::RepairPolicy::kFull ||
      needs_share != (colon != std::string::npos) || !share_fits ||
      !shared_fits || !run_fits) {
    return InvalidArgumentError(
        "--arms: '" + text +
        "' isn't an arm; expected none, or suffix, head, sensitivity, "
        "head-tail or deviation with a percentage between 0 and 100, as in "
        "sensitivity:15; /1 behind it decodes runs of one token and more; @50 "
        "behind one that isn't sensitivity takes the cells from the "
        "conversation when it had half of its tokens");
  }
  arm.policy = *policy;
  arm.share = percent / 100;
  arm.shared = shared / 100;
  arm.min_run = min_run;
  return arm;
}

}  // namespace nexus::calibrate
