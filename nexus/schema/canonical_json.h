// The two texts of a JSON value: sorted and compact for hashing, and spaced as
// Python's json.dumps writes it for the model to read.
//
// Numbers are written as the parser kept them: integers in full, anything with
// a point or an exponent as the shortest text that reads back to the same
// double. So 1 and 1.0 are different texts, 1.0 and 1.00 the same. Strings keep
// their code points: no Unicode normalisation, only the escapes that JSON
// demands.
#ifndef NEXUS_SCHEMA_CANONICAL_JSON_H_
#define NEXUS_SCHEMA_CANONICAL_JSON_H_

#include <string>

#include "nexus/base/json.h"

namespace nexus::schema {

// Keys in byte order at every level, no spaces. Array order is kept.
std::string SortedCompactText(const Json& value);

// json.dumps(value, ensure_ascii=False): author's key order, ", " and ": ".
std::string SpacedText(const Json& value);

// Nested objects and arrays: 0 for a scalar, 1 for {}.
int LevelCount(const Json& value);

}  // namespace nexus::schema

#endif  // NEXUS_SCHEMA_CANONICAL_JSON_H_
