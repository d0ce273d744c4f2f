// Lenient reads of optional fields: a server that gets one of them wrong loses
// that field, not the whole answer.
#ifndef NEXUS_MCP_JSON_FIELDS_H_
#define NEXUS_MCP_JSON_FIELDS_H_

#include <string>

#include "nexus/base/json.h"

namespace nexus::mcp {

// The string at `key`; empty when `object` isn't one or has no such string.
inline std::string StringOf(const Json& object, const char* key) {
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) return {};
  return found->get<std::string>();
}

// The number at `key` of an object, else 0.
inline double NumberOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

}  // namespace nexus::mcp

#endif  // NEXUS_MCP_JSON_FIELDS_H_
