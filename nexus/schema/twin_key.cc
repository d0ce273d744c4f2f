// TwinKey: the same tool under another server or in another spelling. The name
// is split into words as search engines do (camelCase, underscores,
// punctuation), lower-cased in ASCII, and a leading server name is dropped.
// Bytes outside ASCII are letters: folding them is a matter of language, and
// twins are only counted.
#include <string>
#include <string_view>
#include <vector>

#include "nexus/schema/tool_schema.h"

namespace nexus::schema {
namespace {

bool IsUpper(char c) { return c >= 'A' && c <= 'Z'; }
bool IsLower(char c) { return c >= 'a' && c <= 'z'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsWordByte(char c) {
  return IsUpper(c) || IsLower(c) || IsDigit(c) ||
         static_cast<unsigned char>(c) >= 0x80;
}

// "getHTTPServer_v2" -> get, http, server, v2.
std::vector<std::string> SplitWords(std::string_view text) {
  std::vector<std::string> words;
  bool in_word = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!IsWordByte(c)) {
      in_word = false;
      continue;
    }
    const bool hump =
        IsUpper(c) && i > 0 &&
        (IsLower(text[i - 1]) || IsDigit(text[i - 1]) ||
         (IsUpper(text[i - 1]) && i + 1 < text.size() && IsLower(text[i + 1])));
    if (!in_word || hump) words.emplace_back();
    in_word = true;
    words.back().push_back(IsUpper(c) ? static_cast<char>(c - 'A' + 'a') : c);
  }
  return words;
}

bool StartsWith(const std::vector<std::string>& words,
                const std::vector<std::string>& prefix) {
  if (prefix.empty() || prefix.size() >= words.size()) return false;
  for (size_t i = 0; i < prefix.size(); ++i) {
    if (words[i] != prefix[i]) return false;
  }
  return true;
}

std::string Join(const std::vector<std::string>& words, size_t first) {
  std::string text;
  for (size_t i = first; i < words.size(); ++i) {
    if (i > first) text.push_back(' ');
    text.append(words[i]);
  }
  return text;
}

}  // namespace

std::string TwinKey(const ToolSchema& tool) {
  const std::vector<std::string> name = SplitWords(tool.name);
  const std::vector<std::string> server = SplitWords(tool.server);
  const size_t first = StartsWith(name, server) ? server.size() : 0;
  return Join(name, first) + "\n" + Join(SplitWords(tool.description), 0);
}

}  // namespace nexus::schema
