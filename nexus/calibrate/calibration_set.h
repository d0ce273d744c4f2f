// CalibrationSet: the tools, questions and conversations that fidelity is
// measured on. Compiled into the program, so that anybody's figures are taken
// on the same texts.
//
// None of it shares a sentence with the compile contexts: a block must not be
// measured behind what it was compiled behind.
#ifndef NEXUS_CALIBRATE_CALIBRATION_SET_H_
#define NEXUS_CALIBRATE_CALIBRATION_SET_H_

#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/engine/prompt_plan.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::calibrate {

struct CalibrationCase {
  schema::ToolSchema tool;
  std::vector<std::string> questions;  // each gives all required arguments
};

struct CalibrationHistory {
  std::string_view kind;  // "prose", "source", "dialogue", "records"
  std::string_view text;
};

struct CalibrationSet {
  std::vector<CalibrationCase> cases;
  std::vector<CalibrationHistory> histories;
};

// kCorruption only if the program was built from damaged data files.
Result<CalibrationSet> LoadCalibrationSet();

// A conversation of this kind of text, whole turns, of at most `depth` tokens
// and as near to it as a turn can be cut; just the template's head when depth
// is smaller than that. kInvalidArgument when the text is shorter than `depth`.
Result<std::vector<llm::Token>> HistoryOfDepth(
    const engine::PromptPlanner& planner, const CalibrationHistory& history,
    int depth);

}  // namespace nexus::calibrate

#endif  // NEXUS_CALIBRATE_CALIBRATION_SET_H_
