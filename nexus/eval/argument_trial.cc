#include "nexus/eval/argument_trial.h"

namespace nexus::eval {

std::string_view ArgumentFormName(ArgumentForm form) {
  switch (form) {
    case ArgumentForm::kIr:
      return "ir";
    case ArgumentForm::kSchema:
      return "schema";
    case ArgumentForm::kSchemaText:
      return "schema-text";
  }
  return "?";
}

std::optional<ArgumentForm> ParseArgumentForm(std::string_view name) {
  for (const ArgumentForm form : kArgumentForms) {
    if (ArgumentFormName(form) == name) return form;
  }
  return std::nullopt;
}

Json TrialToJson(const ArgumentTrial& trial) {
  return {{"key", trial.key},
          {"arguments", trial.arguments},
          {"schema_valid", trial.schema_valid},
          {"invalid_reason", trial.invalid_reason},
          {"refused", trial.refused},
          {"prompt_tokens", trial.prompt_tokens},
          {"tool_tokens", trial.tool_tokens},
          {"sampled_tokens", trial.sampled_tokens},
          {"repair_rounds", trial.repair_rounds},
          {"ttft_ms", trial.ttft_ms},
          {"tier", trial.tier},
          {"list_tools", trial.list_tools},
          {"list_choice", trial.list_choice}};
}

Result<ArgumentTrial> TrialFromJson(const Json& json, std::string_view source) {
  ArgumentTrial trial;
  // The types that TrialToJson writes, whatever the values.
  const Json expected = TrialToJson(trial);
  for (const auto& [field, value] : expected.items()) {
    const bool fits =
        json.is_object() && json.contains(field) &&
        (field == "arguments" ||
         (value.is_number() ? json[field].is_number()
                            : json[field].type() == value.type()));
    if (!fits) {
      return CorruptionError(std::string(source) + ": '" + field +
                             "' is missing or of another type");
    }
  }
  trial.key = json["key"].get<std::string>();
  trial.arguments = json["arguments"];
  trial.schema_valid = json["schema_valid"].get<bool>();
  trial.invalid_reason = json["invalid_reason"].get<std::string>();
  trial.refused = json["refused"].get<bool>();
  trial.prompt_tokens = json["prompt_tokens"].get<int>();
  trial.tool_tokens = json["tool_tokens"].get<int>();
  trial.sampled_tokens = json["sampled_tokens"].get<int>();
  trial.repair_rounds = json["repair_rounds"].get<int>();
  trial.ttft_ms = json["ttft_ms"].get<double>();
  trial.tier = json["tier"].get<std::string>();
  trial.list_tools = json["list_tools"].get<int>();
  trial.list_choice = json["list_choice"].get<int>();
  return trial;
}

}  // namespace nexus::eval
