// Makes a JSON Schema fit for llama.cpp's grammar converter.
//
// The converter takes exponential time on some schemas and overflows the stack
// on others, prints to standard error, and reads several common forms as
// something else ({} as "object", an `anyOf` that only lists `required` as "any
// value"). This pass refuses the former and rewrites the latter. It may narrow
// what a schema allows, and it drops what a grammar can't count; the argument
// validator checks the original. Internal to nexus/llm.
#ifndef NEXUS_LLM_GRAMMAR_SCHEMA_H_
#define NEXUS_LLM_GRAMMAR_SCHEMA_H_

#include "nexus/base/json.h"
#include "nexus/base/result.h"

namespace nexus::llm {

// kUnimplemented names the place in the schema ("at /properties/size: ...").
Result<Json> PrepareSchemaForGrammar(const Json& schema);

}  // namespace nexus::llm

#endif  // NEXUS_LLM_GRAMMAR_SCHEMA_H_
