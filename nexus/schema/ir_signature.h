// IR: a tool's signature in about twenty tokens, for argument generation without the
// full schema in the context.
//
//   name(param:type, unit:celsius|fahrenheit, days?:int=3)  One-line purpose
//
// "?" marks an optional parameter, "|" separates enum values, "=" gives a default.
// Reversible to the parameter names: ParameterNames(IrSignature(tool)) are the
// tool's top-level parameters in the author's order.
#ifndef NEXUS_SCHEMA_IR_SIGNATURE_H_
#define NEXUS_SCHEMA_IR_SIGNATURE_H_

#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::schema {

std::string IrSignature(const ToolSchema& tool);

// kInvalidArgument with the offset when the text isn't a signature.
Result<std::vector<std::string>> ParameterNames(std::string_view signature);

}  // namespace nexus::schema

#endif  // NEXUS_SCHEMA_IR_SIGNATURE_H_
