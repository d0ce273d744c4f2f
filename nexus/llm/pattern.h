// Regular expressions of JSON Schema -> the dialect that llama.cpp's schema
// converter understands and gets right.
//
// A pattern describes the string; a grammar describes its JSON text, where a
// quote or a backslash is written as two characters and control characters
// can't stand raw. The converter doesn't know the difference ("^.*$" lets a
// bare quote through), binds "a\.*" wrongly, and silently accepts any string
// for \d or for a pattern without anchors. So Nexus parses the pattern itself
// and hands on one made of nothing but groups, classes of spelled-out code
// points and repetitions. Internal to nexus/llm.
#ifndef NEXUS_LLM_PATTERN_H_
#define NEXUS_LLM_PATTERN_H_

#include <string>
#include <string_view>

#include "nexus/base/result.h"

namespace nexus::llm {

// kUnimplemented names what a grammar can't express: look-around, back
// references, word boundaries, anchors in the middle.
Result<std::string> ToGrammarPattern(std::string_view pattern);

}  // namespace nexus::llm

#endif  // NEXUS_LLM_PATTERN_H_
