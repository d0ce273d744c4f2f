// Json: the one JSON type of Nexus, and the one way to parse outside text.
//
// ordered_json keeps the author's property order, which is what the model reads
// and what decides the order of generated arguments.
#ifndef NEXUS_BASE_JSON_H_
#define NEXUS_BASE_JSON_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "nlohmann/json.hpp"

#include "nexus/base/result.h"

namespace nexus {

using Json = nlohmann::ordered_json;

struct JsonLimits {
  size_t max_bytes = size_t{16} << 20;
  // Deep nesting overflows the stack of every recursive consumer.
  int max_depth = 128;
  // ordered_json looks keys up one by one, so an object costs its members
  // squared: 16 MiB in one object would take hours.
  size_t max_object_members = 4096;
};

// `source` names where the text came from (a path, "server 'x'"). The error
// says source, byte offset and what was wrong. Duplicate keys: the last one
// wins, as in every browser. Never throws.
Result<Json> ParseJson(std::string_view text, std::string_view source,
                       const JsonLimits& limits = {});

// dump() that can't throw: invalid UTF-8 becomes U+FFFD. indent < 0: one line.
std::string DumpJson(const Json& value, int indent = -1);

}  // namespace nexus

#endif  // NEXUS_BASE_JSON_H_
