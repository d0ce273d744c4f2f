// Brings any JSON Schema (drafts 4 to 2020-12, OpenAPI's "nullable",
// Python-minded type names) down to the part of draft 7 that valijson reads
// without surprises.
#ifndef NEXUS_SCHEMA_SCHEMA_LOWERING_H_
#define NEXUS_SCHEMA_SCHEMA_LOWERING_H_

#include <string_view>

#include "nexus/base/json.h"
#include "nexus/base/result.h"

namespace nexus::schema::internal {

// Stand-ins for keywords that valijson's own would do unsafely; see
// argument_validator.cc.
inline constexpr char kPatternKeyword[] = "nexus.pattern";
inline constexpr char kStepKeyword[] = "nexus.step";

// "integer" for "int"; empty for a name that no draft and no dialect knows;
// "any" where it means no constraint.
std::string_view CanonicalType(std::string_view name);

// Only known keywords, every reference as "#/definitions/rN" with its target
// there, kStepKeyword in every schema. kInvalidArgument with the path of a
// malformed keyword, of a reference that is remote, names nothing or never
// ends, and of nesting that would overflow the stack.
Result<Json> LowerSchema(const Json& parameters);

}  // namespace nexus::schema::internal

#endif  // NEXUS_SCHEMA_SCHEMA_LOWERING_H_
