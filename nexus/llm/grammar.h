// JSON Schema -> GBNF, by llama.cpp's converter. It throws and can blow up;
// both stop here.
#ifndef NEXUS_LLM_GRAMMAR_H_
#define NEXUS_LLM_GRAMMAR_H_

#include <string>
#include <string_view>

#include "nexus/base/result.h"
#include "nexus/llm/model.h"

namespace nexus::llm {

// kUnimplemented when the converter refuses the schema or its grammar is longer
// than `max_grammar_bytes`; the caller relaxes the schema
// (schema/grammar_relax.h) and tries again. The grammar was parsed once by the
// sampler's own parser, so Sampler::Create won't refuse it.
Result<std::string> JsonSchemaToGrammar(const Model& model,
                                        std::string_view schema_json,
                                        size_t max_grammar_bytes = 256 << 10);

}  // namespace nexus::llm

#endif  // NEXUS_LLM_GRAMMAR_H_
