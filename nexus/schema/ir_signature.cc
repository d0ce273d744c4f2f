#include "nexus/schema/ir_signature.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>

#include "nexus/schema/ir_type.h"

namespace nexus::schema {
namespace {

using internal::IrMembers;
using internal::IrName;

// Twenty tokens is the goal for the whole line. Where the parameters alone take
// more, three words of purpose remain: the tool is already chosen, so they only
// tell two readings of a parameter apart.
constexpr int kTokenBudget = 20;
constexpr int kMinPurposeWords = 3;
constexpr int kMaxPurposeWords = 12;

bool IsLetter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         static_cast<unsigned char>(c) >= 0x80;
}

// What a byte-pair tokenizer makes of code-like text, without one: a letter run
// with the character before it is one token per nine bytes, camelCase humps
// count apart, each digit and each other character that no letter follows is
// one.
int EstimateTokens(std::string_view text) {
  int tokens = 0;
  size_t i = 0;
  while (i < text.size()) {
    if (IsLetter(text[i])) {
      size_t end = i + 1;
      while (end < text.size() && IsLetter(text[end]) &&
             !(text[end] >= 'A' && text[end] <= 'Z')) {
        ++end;
      }
      tokens += 1 + static_cast<int>((end - i - 1) / 9);
      i = end;
    } else {
      const bool joins_letters = i + 1 < text.size() && IsLetter(text[i + 1]);
      if (!joins_letters) ++tokens;
      ++i;
    }
  }
  return tokens;
}

std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  size_t i = 0;
  while (i < text.size()) {
    const size_t begin = text.find_first_not_of(" \t\r\n", i);
    if (begin == std::string_view::npos) break;
    const size_t end =
        std::min(text.find_first_of(" \t\r\n", begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    i = end;
  }
  return words;
}

// Up to the first end of a sentence or clause.
std::string_view FirstClause(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool at_gap =
        i + 1 == text.size() || text[i + 1] == ' ' || text[i + 1] == '\n';
    if (c == ';' || c == '(' || c == '\n' ||
        ((c == '.' || c == ':' || c == ',' || c == '!') && at_gap)) {
      if (i > 0) return text.substr(0, i);
    }
  }
  return text;
}

bool IsOneOf(std::string_view word, std::initializer_list<const char*> list) {
  const auto equal = [&](std::string_view other) {
    return word.size() == other.size() &&
           std::equal(word.begin(), word.end(), other.begin(),
                      [](char a, char b) {
                        return std::tolower(static_cast<unsigned char>(a)) == b;
                      });
  };
  return std::any_of(list.begin(), list.end(), equal);
}

// "Get the weather for a" -> "Get the weather": a cut must not end on a word
// that only leads to the next.
bool LeadsOn(std::string_view word) {
  return IsOneOf(
      word, {"a",     "an",   "and",   "as",  "at",    "by",   "for", "from",
             "in",    "into", "of",    "on",  "or",    "that", "the", "to",
             "using", "with", "which", "its", "their", "your", "all", "is"});
}

std::string LowerLetters(std::string_view text) {
  std::string letters;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      letters.push_back(
          static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
    }
  }
  return letters;
}

// "Get the weather" says nothing that get_weather doesn't.
bool RepeatsName(const std::vector<std::string_view>& words, size_t count,
                 std::string_view name) {
  const std::string letters = LowerLetters(name);
  return std::all_of(
      words.begin(), words.begin() + static_cast<long>(count),
      [&](std::string_view word) {
        const std::string low = LowerLetters(word);
        return LeadsOn(word) ||
               (!low.empty() && letters.find(low) != std::string::npos);
      });
}

std::string Purpose(std::string_view description, std::string_view name,
                    int token_budget) {
  const size_t begin = description.find_first_not_of(" \t\r\n#*-");
  if (begin == std::string_view::npos) return {};
  std::vector<std::string_view> words =
      Words(FirstClause(description.substr(begin)));
  std::string text;
  size_t kept = 0;
  int tokens = 0;
  for (const std::string_view word : words) {
    if (kept == kMaxPurposeWords) break;
    tokens += EstimateTokens(word);
    if (kept >= kMinPurposeWords && tokens > token_budget) break;
    ++kept;
  }
  while (kept > 1 && kept < words.size() && LeadsOn(words[kept - 1])) --kept;
  if (RepeatsName(words, kept, name)) return {};
  for (size_t i = 0; i < kept; ++i) {
    if (i > 0) text.push_back(' ');
    text.append(words[i]);
  }
  return text;
}

// Reads a signature from left to right; every error names the offset.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Result<std::vector<std::string>> Parameters() {
    NEXUS_RETURN_IF_ERROR(Name().status());
    NEXUS_RETURN_IF_ERROR(Expect('('));
    std::vector<std::string> names;
    if (Peek() == ')') return names;
    while (true) {
      NEXUS_ASSIGN_OR_RETURN(std::string name, Name());
      names.push_back(std::move(name));
      if (Peek() == '?') ++offset_;
      if (Peek() == ':' || Peek() == '=') {
        ++offset_;
        NEXUS_RETURN_IF_ERROR(SkipTypeAndDefault());
      }
      if (Peek() == ')') return names;
      NEXUS_RETURN_IF_ERROR(Expect(','));
      NEXUS_RETURN_IF_ERROR(Expect(' '));
    }
  }

 private:
  char Peek() const { return offset_ < text_.size() ? text_[offset_] : '\0'; }

  Status Error(const std::string& expected) const {
    return InvalidArgumentError("signature, offset " + std::to_string(offset_) +
                                ": expected " + expected);
  }

  Status Expect(char c) {
    if (Peek() != c) return Error(std::string("'") + c + "'");
    ++offset_;
    return Status::Ok();
  }

  Result<std::string> Name() {
    const size_t begin = offset_;
    if (Peek() == '"') {
      NEXUS_RETURN_IF_ERROR(SkipQuoted());
      NEXUS_ASSIGN_OR_RETURN(
          const Json name,
          ParseJson(text_.substr(begin, offset_ - begin), "signature"));
      return name.get<std::string>();
    }
    while (offset_ < text_.size() &&
           std::string_view("\"|,()[]{}=?:\\ ").find(text_[offset_]) ==
               std::string_view::npos) {
      ++offset_;
    }
    if (offset_ == begin) return Error("a name");
    return std::string(text_.substr(begin, offset_ - begin));
  }

  Status SkipQuoted() {
    for (++offset_; offset_ < text_.size(); ++offset_) {
      if (text_[offset_] == '\\') {
        ++offset_;
      } else if (text_[offset_] == '"') {
        ++offset_;
        return Status::Ok();
      }
    }
    offset_ = text_.size();
    return Error("a closing quote");
  }

  // To the "," or ")" that ends the parameter.
  Status SkipTypeAndDefault() {
    int depth = 0;
    while (offset_ < text_.size()) {
      const char c = text_[offset_];
      if (c == '"') {
        NEXUS_RETURN_IF_ERROR(SkipQuoted());
        continue;
      }
      if (depth == 0 && (c == ',' || c == ')')) return Status::Ok();
      if (c == '(' || c == '[' || c == '{') ++depth;
      if (c == ')' || c == ']' || c == '}') --depth;
      if (depth < 0) return Error("',' or ')'");
      ++offset_;
    }
    return Error("')'");
  }

  std::string_view text_;
  size_t offset_ = 0;
};

}  // namespace

std::string IrSignature(const ToolSchema& tool) {
  std::string text = IrName(tool.name) + "(" +
                     IrMembers(tool.parameters, tool.parameters, ", ") + ")";
  const std::string purpose =
      Purpose(tool.description, tool.name, kTokenBudget - EstimateTokens(text));
  if (!purpose.empty()) text.append(" ").append(purpose);
  return text;
}

Result<std::vector<std::string>> ParameterNames(std::string_view signature) {
  return Reader(signature).Parameters();
}

}  // namespace nexus::schema
