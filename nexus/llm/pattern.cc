#include "nexus/llm/pattern.h"

#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

#include "nexus/llm/utf8_ranges.h"

namespace nexus::llm {
namespace {

using Ranges = std::vector<CodePointRange>;

// The converter refuses 100; wrappers need some.
constexpr int kMaxDepth = 48;
constexpr uint32_t kMaxRepetition = 10000;

const Ranges kDigit = {{'0', '9'}};
const Ranges kWord = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const Ranges kSpace = {{'\t', '\r'}, {' ', ' '}, {0xA0, 0xA0}};
// A dot doesn't match these, and they can't stand raw in JSON anyway.
const Ranges kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

// What may stand for itself between the quotes of a JSON string.
const Ranges kRaw = {{0x20, 0x21}, {0x23, 0x5B}, {0x5D, kMaxCodePoint}};

Ranges Intersect(const Ranges& a, const Ranges& b) {
  Ranges outside = Complement(Normalize(a));
  const Ranges more = Complement(Normalize(b));
  outside.insert(outside.end(), more.begin(), more.end());
  return Complement(Normalize(std::move(outside)));
}

std::string FormatClass(const Ranges& ranges) {
  std::string text = "[";
  char buffer[32];
  for (const auto& [low, high] : ranges) {
    std::snprintf(buffer, sizeof(buffer), "\\U%08X", low);
    text += buffer;
    if (high == low) continue;
    std::snprintf(buffer, sizeof(buffer), "-\\U%08X", high);
    text += buffer;
  }
  return text + "]";
}

std::string FormatPoint(uint32_t point) {
  return FormatClass({{point, point}});
}

class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : text_(text) {}

  Result<std::string> Parse() {
    // A pattern without anchors matches anywhere in the string, and so does
    // each alternative on its own: "^a|b$" is a at the start or b at the end.
    const std::string anything =
        FormatClass(Intersect(kRaw, Complement(kLineEnds))) + "*";
    std::string result = "^(?:";
    while (true) {
      const bool start = Skip('^');
      if (!start) result += anything;
      ends_here_ = false;
      NEXUS_RETURN_IF_ERROR(ParseSequence(0, &result));
      if (!ends_here_) result += anything;
      if (AtEnd()) return result + ")$";
      if (Peek() == ')') return Unsupported("an unbalanced parenthesis");
      ++pos_;
      result += "|";
    }
  }

 private:
  bool AtEnd() const { return pos_ >= text_.size(); }
  char Peek() const { return AtEnd() ? '\0' : text_[pos_]; }
  bool Skip(char c) {
    if (Peek() != c || AtEnd()) return false;
    ++pos_;
    return true;
  }

  Status Unsupported(const std::string& what) const {
    return UnimplementedError("pattern '" + std::string(text_.substr(0, 200)) +
                              "' has " + what + " at offset " +
                              std::to_string(pos_) +
                              ", which a grammar can't express");
  }

  // Up to '|', ')' or the end.
  Status ParseSequence(int depth, std::string* out) {
    if (depth > kMaxDepth) return Unsupported("groups nested too deep");
    while (!AtEnd() && Peek() != '|' && Peek() != ')') {
      if (Peek() == '$' && depth == 0 &&
          (pos_ + 1 == text_.size() || text_[pos_ + 1] == '|')) {
        ++pos_;
        ends_here_ = true;
        return Status::Ok();
      }
      NEXUS_RETURN_IF_ERROR(ParseAtom(depth, out));
      NEXUS_RETURN_IF_ERROR(ParseRepetition(out));
    }
    return Status::Ok();
  }

  Status ParseAtom(int depth, std::string* out) {
    const char c = Peek();
    switch (c) {
      case '(':
        return ParseGroup(depth, out);
      case '[':
        return ParseClass(out);
      case '\\':
        return ParseEscape(out);
      case '.':
        ++pos_;
        *out += FormatClass(Intersect(kRaw, Complement(kLineEnds)));
        return Status::Ok();
      case '^':
      case '$':
        return Unsupported("an anchor in the middle");
      case '*':
      case '+':
      case '?':
      case '{':
        return Unsupported("a repetition of nothing");
      default: {
        uint32_t point = 0;
        NEXUS_RETURN_IF_ERROR(ReadPoint(&point));
        return AppendPoint(point, out);
      }
    }
  }

  Status ParseGroup(int depth, std::string* out) {
    ++pos_;
    if (Skip('?')) {
      if (Skip('<') && Peek() != '=' && Peek() != '!') {
        while (!AtEnd() && Peek() != '>') ++pos_;  // the name of the group
        if (!Skip('>')) return Unsupported("an unterminated group name");
      } else if (!Skip(':')) {
        return Unsupported("look-around");
      }
    }
    *out += "(?:";
    while (true) {
      NEXUS_RETURN_IF_ERROR(ParseSequence(depth + 1, out));
      if (Skip(')')) break;
      if (!Skip('|')) return Unsupported("an unterminated group");
      *out += "|";
    }
    *out += ")";
    return Status::Ok();
  }

  Status ParseRepetition(std::string* out) {
    const char c = Peek();
    if (c == '*' || c == '+' || c == '?') {
      ++pos_;
      *out += c;
    } else if (c == '{') {
      ++pos_;
      uint32_t low = 0;
      uint32_t high = 0;
      NEXUS_RETURN_IF_ERROR(ReadCount(&low));
      *out += "{" + std::to_string(low);
      if (Skip(',')) {
        *out += ",";
        if (Peek() != '}') {
          NEXUS_RETURN_IF_ERROR(ReadCount(&high));
          if (high < low) return Unsupported("reversed bounds");
          *out += std::to_string(high);
        }
      }
      if (!Skip('}')) return Unsupported("an unterminated bound");
      *out += "}";
    } else {
      return Status::Ok();
    }
    Skip('?');  // lazy matching matches the same strings
    const char next = Peek();
    if (next == '*' || next == '+' || next == '?' || next == '{') {
      return Unsupported("a repetition of a repetition");
    }
    return Status::Ok();
  }

  Status ReadCount(uint32_t* count) {
    const size_t start = pos_;
    while (Peek() >= '0' && Peek() <= '9') {
      *count = *count * 10 + static_cast<uint32_t>(Peek() - '0');
      if (*count > kMaxRepetition) return Unsupported("a bound above 10000");
      ++pos_;
    }
    return pos_ == start ? Unsupported("a bound without a number")
                         : Status::Ok();
  }

  // Any set of characters, cut down to those that stand raw in JSON.
  Status AppendSet(const Ranges& set, std::string* out) {
    const Ranges raw = Intersect(set, kRaw);
    if (raw.empty()) return Unsupported("a class of characters JSON escapes");
    *out += FormatClass(raw);
    return Status::Ok();
  }

  Status AppendPoint(uint32_t point, std::string* out) {
    const auto escaped = [&](char letter) {
      *out += "(?:" + FormatPoint('\\') +
              FormatPoint(static_cast<uint8_t>(letter)) + ")";
      return Status::Ok();
    };
    switch (point) {
      case '"':
      case '\\':
        return escaped(static_cast<char>(point));
      case '\b':
        return escaped('b');
      case '\f':
        return escaped('f');
      case '\n':
        return escaped('n');
      case '\r':
        return escaped('r');
      case '\t':
        return escaped('t');
      default:
        return AppendSet({{point, point}}, out);
    }
  }

  // \d and its like; false when the letter isn't one of them.
  static bool ClassOfLetter(char letter, Ranges* set) {
    switch (letter) {
      case 'd':
      case 'D':
        *set = kDigit;
        break;
      case 'w':
      case 'W':
        *set = kWord;
        break;
      case 's':
      case 'S':
        *set = kSpace;
        break;
      default:
        return false;
    }
    if (letter < 'a') *set = Complement(*set);
    return true;
  }

  Status ParseEscape(std::string* out) {
    Ranges set;
    if (pos_ + 1 < text_.size() && ClassOfLetter(text_[pos_ + 1], &set)) {
      pos_ += 2;
      return AppendSet(set, out);
    }
    uint32_t point = 0;
    NEXUS_RETURN_IF_ERROR(ReadEscapedPoint(&point));
    return AppendPoint(point, out);
  }

  Status ReadEscapedPoint(uint32_t* point) {
    ++pos_;
    if (AtEnd()) return Unsupported("a trailing backslash");
    const char c = Peek();
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool digit = c >= '0' && c <= '9';
    if (!letter && !digit) return ReadPoint(point);
    ++pos_;
    switch (c) {
      case 'f':
        *point = '\f';
        return Status::Ok();
      case 'n':
        *point = '\n';
        return Status::Ok();
      case 'r':
        *point = '\r';
        return Status::Ok();
      case 't':
        *point = '\t';
        return Status::Ok();
      case 'x':
        return ReadHex(2, point);
      case 'u':
        return ReadHex(4, point);
      default:
        return Unsupported(std::string("the escape \\") + c);
    }
  }

  Status ReadHex(int digits, uint32_t* point) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i, ++pos_) {
      const char c = Peek();
      if (c >= '0' && c <= '9') {
        value = value * 16 + static_cast<uint32_t>(c - '0');
      } else if ((c | 0x20) >= 'a' && (c | 0x20) <= 'f') {
        value = value * 16 + static_cast<uint32_t>((c | 0x20) - 'a' + 10);
      } else {
        return Unsupported("a bad hexadecimal escape");
      }
    }
    *point = value;
    return Status::Ok();
  }

  // A character as it stands. The schema came through the JSON parser, so it is
  // valid UTF-8.
  Status ReadPoint(uint32_t* point) {
    const auto lead = static_cast<uint8_t>(text_[pos_]);
    const size_t length = lead < 0x80   ? 1
                          : lead < 0xE0 ? 2
                          : lead < 0xF0 ? 3
                                        : 4;
    if (text_.size() - pos_ < length) return Unsupported("invalid UTF-8");
    uint32_t value = length == 1 ? lead : lead & (0xFFU >> (length + 1));
    for (size_t i = 1; i < length; ++i) {
      value = (value << 6) | (static_cast<uint8_t>(text_[pos_ + i]) & 0x3FU);
    }
    pos_ += length;
    *point = value;
    return Status::Ok();
  }

  Status ParseClass(std::string* out) {
    ++pos_;
    const bool inverse = Skip('^');
    Ranges set;
    while (Peek() != ']') {
      if (AtEnd()) return Unsupported("an unterminated class");
      Ranges named;
      if (Peek() == '\\' && pos_ + 1 < text_.size() &&
          ClassOfLetter(text_[pos_ + 1], &named)) {
        pos_ += 2;
        set.insert(set.end(), named.begin(), named.end());
        continue;
      }
      uint32_t low = 0;
      NEXUS_RETURN_IF_ERROR(ReadClassPoint(&low));
      uint32_t high = low;
      if (Peek() == '-' && pos_ + 1 < text_.size() && text_[pos_ + 1] != ']') {
        ++pos_;
        NEXUS_RETURN_IF_ERROR(ReadClassPoint(&high));
        if (high < low) return Unsupported("a reversed range");
      }
      set.emplace_back(low, high);
    }
    ++pos_;
    set = Normalize(std::move(set));
    return AppendSet(inverse ? Complement(set) : set, out);
  }

  Status ReadClassPoint(uint32_t* point) {
    if (Peek() != '\\') return ReadPoint(point);
    if (pos_ + 1 < text_.size() && text_[pos_ + 1] == 'b') {
      pos_ += 2;
      *point = '\b';
      return Status::Ok();
    }
    return ReadEscapedPoint(point);
  }

  std::string_view text_;
  size_t pos_ = 0;
  bool ends_here_ = false;  // the alternative ended with '$'
};

}  // namespace

Result<std::string> ToGrammarPattern(std::string_view pattern) {
  constexpr size_t kMaxPatternBytes = 4096;
  if (pattern.size() > kMaxPatternBytes) {
    return UnimplementedError("a pattern of " + std::to_string(pattern.size()) +
                              " bytes is too long for a grammar");
  }
  return PatternParser(pattern).Parse();
}

}  // namespace nexus::llm
