// The type part of an IR signature: one JSON Schema as a few characters.
#ifndef NEXUS_SCHEMA_IR_TYPE_H_
#define NEXUS_SCHEMA_IR_TYPE_H_

#include <string>
#include <string_view>

#include "nexus/base/json.h"

namespace nexus::schema::internal {

// A name bare where it can't be mistaken for syntax, else as a JSON string.
std::string IrName(std::string_view name);

// "name?:type=default" of every property of an object schema, joined by
// `separator`; no type for a plain string. `root` resolves local references.
std::string IrMembers(const Json& object, const Json& root,
                      std::string_view separator);

}  // namespace nexus::schema::internal

#endif  // NEXUS_SCHEMA_IR_TYPE_H_
