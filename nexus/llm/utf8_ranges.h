// Splits ranges of code points into sequences of byte ranges. Internal to
// nexus/llm.
#ifndef NEXUS_LLM_UTF8_RANGES_H_
#define NEXUS_LLM_UTF8_RANGES_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace nexus::llm {

inline constexpr uint32_t kMaxCodePoint = 0x10FFFF;

using CodePointRange = std::pair<uint32_t, uint32_t>;  // both ends included

// One sequence matches first byte in [0], second in [1] and so on.
using Utf8Sequence = std::vector<std::pair<uint8_t, uint8_t>>;

// Sorted and merged. Surrogates, which UTF-8 can't encode, are cut out.
std::vector<CodePointRange> Normalize(std::vector<CodePointRange> ranges);

// `ranges` must be normalized.
std::vector<CodePointRange> Complement(
    const std::vector<CodePointRange>& ranges);

// Appends the sequences that together match exactly the UTF-8 of `range`.
void AppendUtf8Sequences(CodePointRange range,
                         std::vector<Utf8Sequence>* sequences);

}  // namespace nexus::llm

#endif  // NEXUS_LLM_UTF8_RANGES_H_
