#include "nexus/calibrate/calibration_set.h"

#include <algorithm>
#include <array>
#include <map>

#include "nexus/base/json.h"
#include "nexus/base/lines.h"
#include "nexus/calibrate/calibration_data.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::calibrate {
namespace {

using llm::ChatMessage;
using llm::Token;

// "Q: ..." and "A: ..." paragraphs as turns. The last turn is the assistant's,
// as before a new question.
std::vector<ChatMessage> DialogueTurns(std::string_view text) {
  std::vector<ChatMessage> turns;
  while (!text.empty()) {
    const size_t end = std::min(text.find("\n\n"), text.size());
    const std::string_view paragraph = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 2));
    const bool asks = paragraph.starts_with("Q: ");
    if (asks || paragraph.starts_with("A: ")) {
      turns.push_back({.role = asks ? "user" : "assistant",
                       .content = std::string(paragraph.substr(3))});
    } else if (!turns.empty()) {
      turns.back().content += "\n\n";
      turns.back().content += paragraph;
    }
  }
  if (!turns.empty() && turns.back().role == "user") turns.pop_back();
  return turns;
}

// The first `bytes` of the text (moved back to a character's begin), read and
// acknowledged.
std::vector<ChatMessage> Conversation(const CalibrationHistory& history,
                                      size_t bytes) {
  bytes = std::min(bytes, history.text.size());
  while (bytes > 0 && bytes < history.text.size() &&
         (static_cast<unsigned char>(history.text[bytes]) & 0xC0U) == 0x80U) {
    --bytes;
  }
  const std::string_view text = history.text.substr(0, bytes);
  if (history.kind == "dialogue") return DialogueTurns(text);
  return {{.role = "user",
           .content = "Please read this first.\n\n" + std::string(text)},
          {.role = "assistant", .content = "I have read it. Go on."}};
}

template <typename Visitor>
Status ForEachJson(std::string_view source, std::string_view lines,
                   const Visitor& visit) {
  return ForEachLine(lines, [&](std::string_view line, size_t) -> Status {
    if (line.empty()) return Status::Ok();
    NEXUS_ASSIGN_OR_RETURN(const Json json, ParseJson(line, source));
    return visit(json);
  });
}

}  // namespace

Result<CalibrationSet> LoadCalibrationSet() {
  CalibrationSet set;
  std::map<std::string, size_t> index;
  NEXUS_RETURN_IF_ERROR(ForEachJson(
      "calibration tools", kCalibrationTools, [&](const Json& json) {
        NEXUS_ASSIGN_OR_RETURN(schema::ToolSchema tool,
                               schema::ParseTool(json, json.value("server", ""),
                                                 "calibration tools"));
        index[tool.name] = set.cases.size();
        set.cases.push_back({std::move(tool), {}});
        return Status::Ok();
      }));
  NEXUS_RETURN_IF_ERROR(ForEachJson(
      "calibration questions", kCalibrationQuestions, [&](const Json& json) {
        const auto found = index.find(json.value("tool", ""));
        if (found == index.end() || !json.contains("question")) {
          return CorruptionError("calibration questions: no such tool in " +
                                 DumpJson(json));
        }
        set.cases[found->second].questions.push_back(
            json["question"].get<std::string>());
        return Status::Ok();
      }));
  for (const CalibrationCase& one : set.cases) {
    if (one.questions.empty()) {
      return CorruptionError("calibration questions: none for " +
                             one.tool.name);
    }
  }
  set.histories = {{"prose", kCalibrationProse},
                   {"source", kCalibrationSource},
                   {"dialogue", kCalibrationDialogue},
                   {"records", kCalibrationRecords}};
  return set;
}

Result<std::vector<Token>> HistoryOfDepth(const engine::PromptPlanner& planner,
                                          const CalibrationHistory& history,
                                          int depth) {
  NEXUS_ASSIGN_OR_RETURN(std::vector<Token> best, planner.HistoryTokens({}));
  const auto wanted = static_cast<size_t>(std::max(depth, 0));
  if (best.size() >= wanted) return best;
  // Bisection over the length of the text: its tokens grow with it.
  size_t low = 0;
  size_t high = history.text.size();
  while (low < high) {
    const size_t middle = low + (high - low + 1) / 2;
    NEXUS_ASSIGN_OR_RETURN(
        std::vector<Token> tokens,
        planner.HistoryTokens(Conversation(history, middle)));
    if (tokens.size() <= wanted) {
      low = middle;
      best = std::move(tokens);
    } else {
      high = middle - 1;
    }
  }
  // A twentieth short is the granularity of a dialogue's turns.
  if (low == history.text.size() && best.size() * 20 < wanted * 19) {
    return InvalidArgumentError(
        "calibration history '" + std::string(history.kind) + "' has " +
        std::to_string(best.size()) + " tokens for this model, " +
        std::to_string(wanted) + " are wanted");
  }
  return best;
}

}  // namespace nexus::calibrate
