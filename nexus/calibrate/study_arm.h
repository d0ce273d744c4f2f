// A study's arm as `nexus bench fidelity --arms` names it.
#ifndef NEXUS_CALIBRATE_STUDY_ARM_H_
#define NEXUS_CALIBRATE_STUDY_ARM_H_

#include <string>

#include "nexus/base/result.h"
#include "nexus/calibrate/fidelity_study.h"

namespace nexus::calibrate {

// "sensitivity:15", "sensitivity:15/1", "none@50" -> policy, share, shortest
// run, shared history. `none` has no share. kInvalidArgument says what would be
// an arm.
Result<StudyArm> ParseStudyArm(const std::string& text);

}  // namespace nexus::calibrate

#endif  // NEXUS_CALIBRATE_STUDY_ARM_H_
