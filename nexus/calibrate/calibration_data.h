// The files of data/, as the build embeds them (cmake/EmbedText.cmake).
#ifndef NEXUS_CALIBRATE_CALIBRATION_DATA_H_
#define NEXUS_CALIBRATE_CALIBRATION_DATA_H_

#include <string_view>

namespace nexus::calibrate {

extern const std::string_view kCalibrationTools;      // JSON lines
extern const std::string_view kCalibrationQuestions;  // JSON lines
extern const std::string_view kCalibrationProse;
extern const std::string_view kCalibrationSource;
extern const std::string_view kCalibrationDialogue;
extern const std::string_view kCalibrationRecords;

}  // namespace nexus::calibrate

#endif  // NEXUS_CALIBRATE_CALIBRATION_DATA_H_
