// GBNF grammars, compiled to a program over bytes.
//
// Nexus matches grammars itself rather than with llama.cpp's sampler, for three
// reasons. That sampler ends the process on some inputs and prints on others.
// It tests each of 150K tokens from scratch at every step. And it can't say how
// far the end is, which is what lets a call be closed before the token limit
// cuts it.
//
// A code point class becomes alternatives of byte ranges (UTF-8 has at most
// four bytes, and a contiguous range of code points splits into few contiguous
// ranges of bytes), so that matching never decodes UTF-8 and a token may end
// inside a character. Internal to nexus/llm.
#ifndef NEXUS_LLM_GBNF_H_
#define NEXUS_LLM_GBNF_H_

#include <bitset>
#include <cstdint>
#include <string_view>
#include <vector>

#include "nexus/base/result.h"

namespace nexus::llm {

using ByteSet = std::bitset<256>;

struct GbnfElement {
  enum class Op : uint8_t {
    kEnd,    // of an alternative
    kBytes,  // one byte out of byte_sets[arg]
    kRule,   // whatever rules[arg] matches
  };
  Op op = Op::kEnd;
  uint32_t arg = 0;

  friend bool operator==(const GbnfElement&, const GbnfElement&) = default;
};

struct GbnfProgram {
  // Longer than any text that fits a context: "never ends".
  static constexpr uint32_t kNeverEnds = 1U << 30;

  std::vector<GbnfElement> elements;
  std::vector<std::vector<uint32_t>> rules;  // [rule] -> starts of alternatives
  std::vector<ByteSet> byte_sets;
  // [element] -> fewest bytes from there to the end of its alternative.
  std::vector<uint32_t> bytes_to_end;
  uint32_t root = 0;
};

// kInvalidArgument with the line for what isn't GBNF or refers to an undefined
// rule, kUnimplemented for a grammar that is left-recursive, too large, matches
// no finite text, or matches tokens rather than text.
Result<GbnfProgram> ParseGbnf(std::string_view text);

}  // namespace nexus::llm

#endif  // NEXUS_LLM_GBNF_H_
