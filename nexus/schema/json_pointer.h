// Local references of JSON Schema: "#", "#/$defs/x", with JSON Pointer's
// escapes.
#ifndef NEXUS_SCHEMA_JSON_POINTER_H_
#define NEXUS_SCHEMA_JSON_POINTER_H_

#include "nexus/base/json.h"

namespace nexus::schema {

// The value that `ref` names inside `root`; nullptr when it isn't a local
// reference or names nothing.
const Json* ResolveRef(const Json& root, const Json& ref);

}  // namespace nexus::schema

#endif  // NEXUS_SCHEMA_JSON_POINTER_H_
