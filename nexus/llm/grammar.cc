#include "nexus/llm/grammar.h"

#include <exception>
#include <utility>

#include "json-schema-to-grammar.h"
#include "json.h"

#include "nexus/base/json.h"
#include "nexus/llm/gbnf.h"
#include "nexus/llm/grammar_schema.h"

namespace nexus::llm {

Result<std::string> JsonSchemaToGrammar(const Model& /*model*/,
                                        std::string_view schema_json,
                                        size_t max_grammar_bytes) {
  NEXUS_ASSIGN_OR_RETURN(const Json schema,
                         ParseJson(schema_json, "tool schema"));
  NEXUS_ASSIGN_OR_RETURN(const Json prepared, PrepareSchemaForGrammar(schema));
  std::string grammar;
  try {
    grammar = json_schema_to_grammar(common_json::parse(DumpJson(prepared)));
  } catch (const std::exception& e) {
    return UnimplementedError(std::string("the grammar converter refuses: ") +
                              e.what());
  } catch (...) {
    return UnimplementedError("the grammar converter refuses the schema");
  }
  if (grammar.size() > max_grammar_bytes) {
    return UnimplementedError(
        "its grammar has " + std::to_string(grammar.size()) +
        " bytes, more than " + std::to_string(max_grammar_bytes));
  }
  const auto program = ParseGbnf(grammar);
  if (!program.ok()) {
    return UnimplementedError("its grammar isn't usable: " +
                              program.status().message());
  }
  return grammar;
}

}  // namespace nexus::llm
