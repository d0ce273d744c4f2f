#include "nexus/route/clauses.h"

#include <algorithm>
#include <cctype>

namespace nexus::route {
namespace {

constexpr size_t kLeastWords = 3;
// Nothing more is read: a pasted document isn't a list of wishes.
constexpr size_t kMaxBytes = 4096;

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string_view Trim(std::string_view text) {
  while (!text.empty() && IsBlank(text.front())) text.remove_prefix(1);
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  return text;
}

// Whether the word stands at `at`, behind and before a blank.
bool HasWord(std::string_view text, size_t at, std::string_view word) {
  if (at == 0 || !IsBlank(text[at - 1])) return false;
  if (text.size() - at <= word.size()) return false;
  for (size_t i = 0; i < word.size(); ++i) {
    const char c = text[at + i];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c) !=
        word[i]) {
      return false;
    }
  }
  const char next = text[at + word.size()];
  return IsBlank(next) || next == ',';
}

// How many bytes at `at` part two clauses; 0: none do.
size_t SeparatorAt(std::string_view text, size_t at) {
  const char c = text[at];
  if (c == '\n' || c == ';') return 1;
  const bool ends = c == '.' || c == '!' || c == '?' || c == ',';
  // "3.5", "1,000" and "a.b" are one word.
  if (ends && (at + 1 == text.size() || IsBlank(text[at + 1]))) return 1;
  for (const std::string_view word : {"and", "then"}) {
    if (HasWord(text, at, word)) return word.size();
  }
  return 0;
}

// Apostrophes don't quote.
bool IsQuote(char c) { return c == '"' || c == '`'; }

}  // namespace

size_t WordCount(std::string_view text) {
  size_t count = 0;
  bool in_word = false;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_part = byte >= 0x80 || std::isalnum(byte) != 0;
    if (is_part && !in_word) ++count;
    in_word = IsBlank(c) ? false : in_word || is_part;
  }
  return count;
}

std::vector<std::string> Clauses(std::string_view text) {
  text = text.substr(0, kMaxBytes);
  std::vector<std::string_view> clauses;  // of `text`
  size_t begin = 0;
  const auto end_piece = [&](size_t end) {
    const std::string_view piece = Trim(text.substr(begin, end - begin));
    if (piece.empty()) return;
    if (!clauses.empty() && (WordCount(piece) < kLeastWords ||
                             WordCount(clauses.back()) < kLeastWords ||
                             clauses.size() == kMaxClauses)) {
      std::string_view& last = clauses.back();
      last = {last.data(),
              static_cast<size_t>(piece.data() + piece.size() - last.data())};
    } else {
      clauses.push_back(piece);
    }
  };
  for (size_t at = 0; at < text.size();) {
    size_t length = 0;
    if (IsQuote(text[at])) {
      const size_t close = text.find(text[at], at + 1);
      if (close != std::string_view::npos) at = close;
    } else {
      length = SeparatorAt(text, at);
    }
    if (length > 0) {
      end_piece(at);
      begin = at + length;
    }
    at += std::max<size_t>(length, 1);
  }
  end_piece(text.size());
  return {clauses.begin(), clauses.end()};
}

}  // namespace nexus::route
