// IR: a tool's signature in about twenty tokens, for argument generation
// without the full schema in the context.
//
//   name(param:type, unit:celsius|fahrenheit, days?:int=3) One-line purpose
//
// "?" marks an optional parameter, "|" separates enum values or alternative
// types,
// "=" gives a default; no type means a string. Reversible to the parameter
// names: ParameterNames(IrSignature(tool)) are the tool's top-level parameters
// in the author's order, whatever characters they hold. docs/schema.md has the
// whole syntax, the bounds past which details are cut, and the token counts
// measured.
#ifndef NEXUS_SCHEMA_IR_SIGNATURE_H_
#define NEXUS_SCHEMA_IR_SIGNATURE_H_

#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::schema {

// One line. The purpose shrinks as the parameters grow, so that half of all
// real tools stay within twenty tokens.
std::string IrSignature(const ToolSchema& tool);

// kInvalidArgument with the offset when the text isn't a signature.
Result<std::vector<std::string>> ParameterNames(std::string_view signature);

}  // namespace nexus::schema

#endif  // NEXUS_SCHEMA_IR_SIGNATURE_H_
