// Regular expressions for the grammar converter.
//
// llama.cpp turns an anchored pattern into grammar rules character by
// character, for the text between the quotes. It knows neither \d nor
// look-around, applies a quantifier behind an escaped character to too much,
// and its "." and negated classes let a quote or a backslash through, which
// ends the JSON string early. So patterns are parsed here and written anew:
// every set of characters as a positive class without quotes, backslashes and
// control characters.
#ifndef NEXUS_SCHEMA_GRAMMAR_PATTERN_H_
#define NEXUS_SCHEMA_GRAMMAR_PATTERN_H_

#include <optional>
#include <string>
#include <string_view>

namespace nexus::schema::internal {

// An equivalent "^...$" in the converter's dialect, restricted to strings that
// need no JSON escapes. Nothing for look-around, back references, anchors
// within, named groups, and what would expand to too many rules.
std::optional<std::string> PatternForGrammar(std::string_view pattern);

}  // namespace nexus::schema::internal

#endif  // NEXUS_SCHEMA_GRAMMAR_PATTERN_H_
