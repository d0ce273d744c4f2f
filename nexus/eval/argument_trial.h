// ArgumentTrial: one call that a model generated for a labelled query, as it is
// kept on disk. Whether it is right is judged when it is read, so that a
// corrected label or rule costs no new generation.
#ifndef NEXUS_EVAL_ARGUMENT_TRIAL_H_
#define NEXUS_EVAL_ARGUMENT_TRIAL_H_

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "nexus/base/json.h"
#include "nexus/base/result.h"

namespace nexus::eval {

// What of the tool stands in the prompt, and how it came there.
enum class ArgumentForm {
  kIr,          // the signature, as text
  kSchema,      // the full schema by the session's tiers, spliced where it may
  kSchemaText,  // the full schema, decoded as text: the reference
};
inline constexpr std::array<ArgumentForm, 3> kArgumentForms = {
    ArgumentForm::kIr, ArgumentForm::kSchema, ArgumentForm::kSchemaText};
std::string_view ArgumentFormName(ArgumentForm form);  // "ir", "schema", ...
std::optional<ArgumentForm> ParseArgumentForm(std::string_view name);

struct ArgumentTrial {
  // Everything that decides the call: the prompt's tokens, the form, the
  // schema behind the grammar, the limit.
  std::string key;
  Json arguments;              // null: not JSON
  bool schema_valid = false;   // the tool's own schema accepts it
  std::string invalid_reason;  // of the schema, or why there was no call at all
  bool refused = false;        // nothing was generated
  int prompt_tokens = 0;
  int tool_tokens = 0;  // of these, the frame and the schema or signature
  int sampled_tokens = 0;
  int repair_rounds = 0;
  double ttft_ms = 0;
  std::string tier;
  int list_tools = 0;    // with every schema in the prompt: how many; else 0
  int list_choice = -1;  // then: the tool that the model chose, of the list
};

Json TrialToJson(const ArgumentTrial& trial);
// kCorruption names `source` and the field.
Result<ArgumentTrial> TrialFromJson(const Json& json, std::string_view source);

}  // namespace nexus::eval

#endif  // NEXUS_EVAL_ARGUMENT_TRIAL_H_
