// Reading UTF-8 that may be broken, and the case folding that search needs.
#ifndef NEXUS_ROUTE_UTF8_H_
#define NEXUS_ROUTE_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace nexus::route {

struct CodePoint {
  char32_t value = 0;
  size_t byte_count = 1;
  bool valid = false;  // false: one byte that isn't the start of a character
};

// The character at text[offset]; offset < text.size(). Overlong forms,
// surrogates and values above U+10FFFF aren't valid.
CodePoint DecodeUtf8(std::string_view text, size_t offset);
void AppendUtf8(char32_t value, std::string* out);

// Simple lower case of ASCII, Latin-1, Latin Extended-A, Greek and Cyrillic;
// others are themselves.
char32_t FoldCase(char32_t value);
// FoldCase of each character; invalid bytes are kept.
std::string FoldCase(std::string_view text);

enum class CharacterClass {
  kSeparator,
  kLower,  // also letters of scripts without case
  kUpper,
  kDigit,
  kIdeograph,  // of a script that doesn't mark words: Chinese, Japanese, Thai
  kHangul,  // a Korean syllable: words are marked, but particles stick to them
};
CharacterClass Classify(char32_t value);

}  // namespace nexus::route

#endif  // NEXUS_ROUTE_UTF8_H_
