#include "nexus/schema/grammar_pattern.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

namespace nexus::schema::internal {
namespace {

// llama.cpp's sampler refuses 2000 copies of one symbol; several patterns share
// a grammar, and each copy costs time for every token.
constexpr int kMaxRepetition = 256;
constexpr int kMaxCopies = 600;
constexpr int kMaxNesting = 16;
constexpr size_t kMaxBytes = 500;

constexpr uint32_t kLastCodePoint = 0x10FFFF;

using Range = std::pair<uint32_t, uint32_t>;  // both ends included
using Ranges = std::vector<Range>;

const Ranges& Digits() {
  static const Ranges ranges = {{'0', '9'}};
  return ranges;
}
const Ranges& WordCharacters() {
  static const Ranges ranges = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return ranges;
}
const Ranges& Blanks() {
  // Tabs and line breaks are escapes in JSON.
  static const Ranges ranges = {{' ', ' '}, {0xA0, 0xA0}};
  return ranges;
}
// What can't stand unescaped between the quotes, and the surrogates.
const Ranges& Forbidden() {
  static const Ranges ranges = {
      {0, 0x1F}, {'"', '"'}, {'\\', '\\'}, {0x7F, 0x7F}, {0xD800, 0xDFFF}};
  return ranges;
}

Ranges Complement(Ranges ranges) {
  std::sort(ranges.begin(), ranges.end());
  Ranges rest;
  uint32_t next = 0;
  for (const auto& [first, last] : ranges) {
    if (first > next) rest.emplace_back(next, first - 1);
    next = std::max(next, last + 1);
  }
  if (next <= kLastCodePoint) rest.emplace_back(next, kLastCodePoint);
  return rest;
}

// What is in `ranges` and can stand in a JSON string as it is.
Ranges Writable(const Ranges& ranges) {
  Ranges outside = Complement(ranges);
  outside.insert(outside.end(), Forbidden().begin(), Forbidden().end());
  return Complement(std::move(outside));
}

bool IsAlphanumeric(uint32_t c) {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
         (c >= 'a' && c <= 'z');
}

void AppendCodePoint(uint32_t c, std::string* out) {
  if (IsAlphanumeric(c)) {
    out->push_back(static_cast<char>(c));
    return;
  }
  char text[16];
  const char* format = c < 0x80      ? "\\x%02X"
                       : c < 0x10000 ? "\\u%04X"
                                     : "\\U%08X";
  const int size = std::snprintf(text, sizeof(text), format, c);
  out->append(text, static_cast<size_t>(size));
}

std::string ClassText(const Ranges& ranges) {
  std::string text = "[";
  for (const auto& [first, last] : ranges) {
    AppendCodePoint(first, &text);
    if (last > first) {
      text.push_back('-');
      AppendCodePoint(last, &text);
    }
  }
  return text + "]";
}

class Rewriter {
 public:
  explicit Rewriter(std::string_view pattern) : pattern_(pattern) {}

  std::optional<std::string> Run() {
    const bool from_start = Take('^');
    bool to_end = false;
    if (pattern_.ends_with('$') && !EndsEscaped()) {
      to_end = true;
      pattern_.remove_suffix(1);
    }
    int copies = 0;
    auto body = Alternatives(&copies, 0);
    if (!body.has_value() || offset_ != pattern_.size()) return std::nullopt;
    // "^a|b$" anchors its halves apart.
    if (has_top_alternatives_ && (from_start || to_end)) return std::nullopt;
    const std::string any = ClassText(Writable(Complement({}))) + "*";
    return "^" + (from_start ? "" : any) + "(" + *body + ")" +
           (to_end ? "" : any) + "$";
  }

 private:
  bool AtEnd() const { return offset_ >= pattern_.size(); }
  char Peek() const { return AtEnd() ? '\0' : pattern_[offset_]; }
  bool Take(char c) {
    if (AtEnd() || Peek() != c) return false;
    ++offset_;
    return true;
  }
  bool EndsEscaped() const {
    size_t backslashes = 0;
    for (size_t i = pattern_.size() - 1; i > 0 && pattern_[i - 1] == '\\';
         --i) {
      ++backslashes;
    }
    return backslashes % 2 == 1;
  }

  std::optional<std::string> Alternatives(int* copies, int depth) {
    if (depth > kMaxNesting) return std::nullopt;
    std::string text;
    do {
      auto sequence = Sequence(copies, depth);
      if (!sequence.has_value()) return std::nullopt;
      text.append(*sequence);
      if (Peek() == '|' && !AtEnd()) {
        text.push_back('|');
        if (depth == 0) has_top_alternatives_ = true;
      }
    } while (Take('|'));
    return text;
  }

  // An empty sequence is refused: the converter has no word for it.
  std::optional<std::string> Sequence(int* copies, int depth) {
    std::string text;
    while (!AtEnd() && Peek() != '|' && Peek() != ')') {
      int atom_copies = 1;
      auto atom = Atom(&atom_copies, depth);
      int times = 1;
      if (!atom.has_value() || !Quantifier(&*atom, &times)) return std::nullopt;
      *copies += atom_copies * times;
      if (*copies > kMaxCopies) return std::nullopt;
      text.append(*atom);
    }
    if (text.empty()) return std::nullopt;
    return text;
  }

  std::optional<std::string> Atom(int* copies, int depth) {
    if (Take('(')) {
      if (Take('?') && !Take(':')) return std::nullopt;
      auto inner = Alternatives(copies, depth + 1);
      if (!inner.has_value() || !Take(')')) return std::nullopt;
      return "(" + *inner + ")";
    }
    std::optional<Ranges> ranges;
    if (Take('[')) {
      ranges = Class();
    } else if (Take('.')) {
      ranges = Complement({});
    } else if (std::string_view("^$*+?{}]").find(Peek()) !=
               std::string_view::npos) {
      return std::nullopt;
    } else {
      ranges = Character();
    }
    if (!ranges.has_value()) return std::nullopt;
    const Ranges writable = Writable(*ranges);
    if (writable.empty()) return std::nullopt;
    if (writable.size() == 1 && writable[0].first == writable[0].second &&
        IsAlphanumeric(writable[0].first)) {
      return std::string(1, static_cast<char>(writable[0].first));
    }
    return ClassText(writable);
  }

  bool Quantifier(std::string* atom, int* times) {
    if (AtEnd()) return true;
    const char c = Peek();
    if (c == '*' || c == '+' || c == '?') {
      ++offset_;
      atom->push_back(c);
    } else if (c == '{') {
      ++offset_;
      const int least = Count();
      int most = least;
      bool is_open = false;
      if (Take(',')) {
        is_open = Peek() == '}';
        most = is_open ? least : Count();
      }
      if (!Take('}') || least < 0 || most < least || most == 0 ||
          most > kMaxRepetition) {
        return false;
      }
      *times = most;
      atom->append("{").append(std::to_string(least)).append(",");
      if (!is_open) atom->append(std::to_string(most));
      atom->append("}");
    } else {
      return true;
    }
    Take('?');  // lazy: the same strings
    return AtEnd() ||
           std::string_view("*+?{").find(Peek()) == std::string_view::npos;
  }

  // -1: no number, or one past every bound.
  int Count() {
    int count = -1;
    while (!AtEnd() && Peek() >= '0' && Peek() <= '9') {
      count = std::max(count, 0) * 10 + (Peek() - '0');
      if (count > kMaxRepetition) return -1;
      ++offset_;
    }
    return count;
  }

  std::optional<Ranges> Class() {
    const bool is_negated = Take('^');
    Ranges ranges;
    while (!AtEnd() && Peek() != ']') {
      auto first = Character();
      if (!first.has_value()) return std::nullopt;
      const bool is_range = Peek() == '-' && offset_ + 1 < pattern_.size() &&
                            pattern_[offset_ + 1] != ']';
      if (!is_range) {
        ranges.insert(ranges.end(), first->begin(), first->end());
        continue;
      }
      ++offset_;
      const auto last = Character();
      if (!last.has_value() || !IsOne(*first) || !IsOne(*last) ||
          last->front().first < first->front().first) {
        return std::nullopt;
      }
      ranges.emplace_back(first->front().first, last->front().first);
    }
    if (!Take(']') || ranges.empty()) return std::nullopt;
    return is_negated ? Complement(std::move(ranges)) : ranges;
  }

  static bool IsOne(const Ranges& ranges) {
    return ranges.size() == 1 && ranges[0].first == ranges[0].second;
  }

  // A literal character or an escape.
  std::optional<Ranges> Character() {
    if (AtEnd()) return std::nullopt;
    if (Take('\\')) return Escape();
    const auto code_point = DecodeUtf8();
    if (!code_point.has_value()) return std::nullopt;
    return Ranges{{*code_point, *code_point}};
  }

  std::optional<Ranges> Escape() {
    if (AtEnd()) return std::nullopt;
    const char c = pattern_[offset_++];
    switch (c) {
      case 'd':
        return Digits();
      case 'D':
        return Complement(Digits());
      case 'w':
        return WordCharacters();
      case 'W':
        return Complement(WordCharacters());
      case 's':
        return Blanks();
      case 'S':
        return Complement({{0, ' '}, {0xA0, 0xA0}});
      case 't':
        return Ranges{{'\t', '\t'}};
      case 'n':
        return Ranges{{'\n', '\n'}};
      case 'r':
        return Ranges{{'\r', '\r'}};
      case 'x':
        return Hex(2);
      case 'u':
        return Hex(4);
      default:
        break;
    }
    // Back references, \b, \p{...}, \0 have no equivalent.
    if (IsAlphanumeric(static_cast<unsigned char>(c))) return std::nullopt;
    if (static_cast<unsigned char>(c) >= 0x80) return std::nullopt;
    const auto code_point = static_cast<uint32_t>(c);
    return Ranges{{code_point, code_point}};
  }

  std::optional<Ranges> Hex(int digits) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const char c = Peek();
      uint32_t digit = 0;
      if (c >= '0' && c <= '9') {
        digit = static_cast<uint32_t>(c - '0');
      } else if ((c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')) {
        digit = static_cast<uint32_t>((c | 0x20) - 'a' + 10);
      } else {
        return std::nullopt;
      }
      value = value * 16 + digit;
      ++offset_;
    }
    return Ranges{{value, value}};
  }

  // The text is valid UTF-8: it came out of the JSON parser.
  std::optional<uint32_t> DecodeUtf8() {
    const auto lead = static_cast<unsigned char>(pattern_[offset_++]);
    if (lead < 0x80) return lead;
    const int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    uint32_t value = lead & (0x3Fu >> more);
    for (int i = 0; i < more; ++i) {
      if (AtEnd()) return std::nullopt;
      value = value << 6 |
              (static_cast<unsigned char>(pattern_[offset_++]) & 0x3Fu);
    }
    return value;
  }

  std::string_view pattern_;
  size_t offset_ = 0;
  bool has_top_alternatives_ = false;
};

}  // namespace

std::optional<std::string> PatternForGrammar(std::string_view pattern) {
  if (pattern.size() > kMaxBytes) return std::nullopt;
  return Rewriter(pattern).Run();
}

}  // namespace nexus::schema::internal
