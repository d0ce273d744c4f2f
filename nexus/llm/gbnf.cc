#include "nexus/llm/gbnf.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>

#include "nexus/llm/utf8_ranges.h"

namespace nexus::llm {
namespace {

using Op = GbnfElement::Op;
using Sequence = std::vector<GbnfElement>;
using Alternatives = std::vector<Sequence>;

// A string of up to 10,000 characters is 40,000 elements; a grammar past this
// bound costs more to build than the decode that it guides.
constexpr size_t kMaxElements = size_t{1} << 19;
constexpr int kMaxGroupDepth = 200;
constexpr uint64_t kUnbounded = std::numeric_limits<uint64_t>::max();
// A chain of rules that takes more sweeps than this was made to be slow.
constexpr int kMaxSweeps = 1000;

bool IsNameChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<GbnfProgram> Parse() {
    SkipSpace(/*newlines=*/true);
    while (!AtEnd()) NEXUS_RETURN_IF_ERROR(ParseRule());
    const auto root = names_.find("root");
    if (root == names_.end()) return Error("there is no rule 'root'");
    for (const auto& [name, rule] : names_) {
      if (rules_[rule].empty())
        return Error("rule '" + name + "' isn't defined");
    }
    return Flatten(root->second);
  }

 private:
  bool AtEnd() const { return pos_ >= text_.size(); }
  char Peek() const { return AtEnd() ? '\0' : text_[pos_]; }

  Status Error(const std::string& message) const {
    const auto line = std::count(
        text_.begin(),
        text_.begin() +
            static_cast<std::ptrdiff_t>(std::min(pos_, text_.size())),
        '\n');
    return InvalidArgumentError("grammar line " + std::to_string(line + 1) +
                                ": " + message);
  }

  static Status TooLarge() {
    return UnimplementedError("the grammar has more than " +
                              std::to_string(kMaxElements) +
                              " elements; lower its repetition bounds");
  }

  void SkipSpace(bool newlines) {
    while (!AtEnd()) {
      const char c = text_[pos_];
      if (c == '#') {
        while (!AtEnd() && text_[pos_] != '\n') ++pos_;
      } else if (c == ' ' || c == '\t' ||
                 (newlines && (c == '\n' || c == '\r'))) {
        ++pos_;
      } else {
        return;
      }
    }
  }

  uint32_t NewRule() {
    rules_.emplace_back();
    return static_cast<uint32_t>(rules_.size() - 1);
  }

  void Define(uint32_t rule, Alternatives alternatives) {
    for (const Sequence& sequence : alternatives) {
      element_count_ += sequence.size() + 1;
    }
    rules_[rule] = std::move(alternatives);
  }

  uint32_t RuleNamed(std::string_view name) {
    const auto [it, added] = names_.try_emplace(std::string(name), 0);
    if (added) it->second = NewRule();
    return it->second;
  }

  std::string_view ReadName() {
    const size_t start = pos_;
    while (IsNameChar(Peek())) ++pos_;
    return text_.substr(start, pos_ - start);
  }

  Status ParseRule() {
    const std::string_view name = ReadName();
    if (name.empty()) return Error("expected the name of a rule");
    const uint32_t rule = RuleNamed(name);
    SkipSpace(false);
    if (text_.substr(pos_, 3) != "::=") return Error("expected '::='");
    pos_ += 3;
    SkipSpace(true);
    Alternatives alternatives;
    NEXUS_RETURN_IF_ERROR(ParseAlternatives(0, &alternatives));
    if (!rules_[rule].empty()) {
      return Error("rule '" + std::string(name) + "' is defined twice");
    }
    Define(rule, std::move(alternatives));
    if (!AtEnd() && Peek() != '\n' && Peek() != '\r') {
      return Error("expected the end of the line");
    }
    SkipSpace(true);
    return Status::Ok();
  }

  Status ParseAlternatives(int depth, Alternatives* alternatives) {
    if (depth > kMaxGroupDepth) return Error("groups are nested too deep");
    while (true) {
      Sequence sequence;
      NEXUS_RETURN_IF_ERROR(ParseSequence(depth, &sequence));
      alternatives->push_back(std::move(sequence));
      if (Peek() != '|') return Status::Ok();
      ++pos_;
      SkipSpace(true);
    }
  }

  Status ParseSequence(int depth, Sequence* sequence) {
    const bool nested = depth > 0;
    size_t item_start = 0;  // of what a repetition applies to
    bool has_item = false;
    while (!AtEnd()) {
      const char c = Peek();
      if (c == '*' || c == '+' || c == '?' || c == '{') {
        if (!has_item) return Error("nothing to repeat");
        uint64_t low = 0;
        uint64_t high = kUnbounded;
        NEXUS_RETURN_IF_ERROR(ParseBounds(&low, &high));
        NEXUS_RETURN_IF_ERROR(Repeat(sequence, item_start, low, high));
        SkipSpace(nested);
        continue;
      }
      const size_t start = sequence->size();
      if (c == '"') {
        NEXUS_RETURN_IF_ERROR(ParseLiteral(sequence));
      } else if (c == '[') {
        NEXUS_RETURN_IF_ERROR(ParseClass(sequence));
      } else if (c == '.') {
        ++pos_;
        sequence->push_back(ClassOf({{0, kMaxCodePoint}}));
      } else if (c == '(') {
        ++pos_;
        SkipSpace(true);
        Alternatives alternatives;
        NEXUS_RETURN_IF_ERROR(ParseAlternatives(depth + 1, &alternatives));
        if (Peek() != ')') return Error("expected ')'");
        ++pos_;
        const uint32_t group = NewRule();
        Define(group, std::move(alternatives));
        sequence->push_back({Op::kRule, group});
      } else if (IsNameChar(c)) {
        const std::string_view name = ReadName();
        sequence->push_back({Op::kRule, RuleNamed(name)});
      } else if (c == '<' || c == '!') {
        return UnimplementedError("the grammar matches tokens by id");
      } else {
        break;
      }
      item_start = start;
      has_item = sequence->size() > start;
      if (element_count_ + sequence->size() > kMaxElements) return TooLarge();
      SkipSpace(nested);
    }
    return Status::Ok();
  }

  Status ParseBounds(uint64_t* low, uint64_t* high) {
    const char c = text_[pos_++];
    if (c == '*') return Status::Ok();
    if (c == '+') {
      *low = 1;
      return Status::Ok();
    }
    if (c == '?') {
      *high = 1;
      return Status::Ok();
    }
    SkipSpace(false);
    NEXUS_RETURN_IF_ERROR(ParseCount(low));
    *high = *low;
    SkipSpace(false);
    if (Peek() == ',') {
      ++pos_;
      SkipSpace(false);
      *high = kUnbounded;
      if (Peek() != '}') NEXUS_RETURN_IF_ERROR(ParseCount(high));
      SkipSpace(false);
    }
    if (Peek() != '}') return Error("expected '}'");
    ++pos_;
    if (*high < *low) return Error("a repetition's bounds are reversed");
    return Status::Ok();
  }

  Status ParseCount(uint64_t* count) {
    const size_t start = pos_;
    uint64_t value = 0;
    while (Peek() >= '0' && Peek() <= '9') {
      value = std::min<uint64_t>(
          value * 10 + static_cast<uint64_t>(Peek() - '0'), kMaxElements + 1);
      ++pos_;
    }
    if (pos_ == start) return Error("expected a number");
    *count = value;
    return Status::Ok();
  }

  // x{2,4} becomes x x y2 with y2 ::= x y1 | and y1 ::= x |, which never makes
  // two ways of matching the same text.
  Status Repeat(Sequence* sequence, size_t item_start, uint64_t low,
                uint64_t high) {
    const auto begin =
        sequence->begin() + static_cast<std::ptrdiff_t>(item_start);
    Sequence item(begin, sequence->end());
    sequence->resize(item_start);
    if (item.size() > 1) {
      const uint32_t group = NewRule();
      Define(group, {std::move(item)});
      item = {{Op::kRule, group}};
    }
    const uint64_t optional = high == kUnbounded ? 1 : high - low;
    if (element_count_ + low + 4 * optional > kMaxElements) return TooLarge();
    for (uint64_t i = 0; i < low; ++i) sequence->push_back(item[0]);
    if (high == kUnbounded) {
      const uint32_t rest = NewRule();
      Define(rest, {{item[0], {Op::kRule, rest}}, {}});
      sequence->push_back({Op::kRule, rest});
      return Status::Ok();
    }
    uint32_t shorter = 0;
    for (uint64_t i = 0; i < optional; ++i) {
      const uint32_t rest = NewRule();
      Sequence one = {item[0]};
      if (i > 0) one.push_back({Op::kRule, shorter});
      Define(rest, {std::move(one), {}});
      shorter = rest;
    }
    if (optional > 0) sequence->push_back({Op::kRule, shorter});
    return Status::Ok();
  }

  Status ParseLiteral(Sequence* sequence) {
    ++pos_;
    while (Peek() != '"') {
      uint32_t point = 0;
      NEXUS_RETURN_IF_ERROR(ParsePoint(&point));
      std::vector<Utf8Sequence> encoded;
      AppendUtf8Sequences({point, point}, &encoded);
      for (const auto& [byte, same] : encoded[0]) {
        ByteSet set;
        set.set(byte);
        sequence->push_back(BytesOf(set));
      }
    }
    ++pos_;
    return Status::Ok();
  }

  Status ParseClass(Sequence* sequence) {
    ++pos_;
    const bool inverse = Peek() == '^';
    if (inverse) ++pos_;
    std::vector<CodePointRange> ranges;
    while (Peek() != ']') {
      uint32_t low = 0;
      NEXUS_RETURN_IF_ERROR(ParsePoint(&low));
      uint32_t high = low;
      if (Peek() == '-' && pos_ + 1 < text_.size() && text_[pos_ + 1] != ']') {
        ++pos_;
        NEXUS_RETURN_IF_ERROR(ParsePoint(&high));
        if (high < low) return Error("a character range is reversed");
      }
      ranges.emplace_back(low, high);
    }
    ++pos_;
    ranges = Normalize(std::move(ranges));
    if (inverse) ranges = Complement(ranges);
    if (ranges.empty()) return Error("a character class matches nothing");
    sequence->push_back(ClassOf(ranges));
    return Status::Ok();
  }

  // One character of a literal or class, which may be escaped.
  Status ParsePoint(uint32_t* point) {
    if (AtEnd()) return Error("unexpected end of the grammar");
    const char c = text_[pos_];
    if (c != '\\') return ParseUtf8(point);
    ++pos_;
    const char kind = Peek();
    ++pos_;
    switch (kind) {
      case 'x':
        return ParseHex(2, point);
      case 'u':
        return ParseHex(4, point);
      case 'U':
        return ParseHex(8, point);
      case 't':
        *point = '\t';
        return Status::Ok();
      case 'r':
        *point = '\r';
        return Status::Ok();
      case 'n':
        *point = '\n';
        return Status::Ok();
      case '\\':
      case '"':
      case '[':
      case ']':
        *point = static_cast<uint8_t>(kind);
        return Status::Ok();
      default:
        return Error("unknown escape");
    }
  }

  Status ParseHex(int digits, uint32_t* point) {
    uint32_t value = 0;
    for (int i = 0; i < digits; ++i) {
      const char c = Peek();
      uint32_t digit = 0;
      if (c >= '0' && c <= '9') {
        digit = static_cast<uint32_t>(c - '0');
      } else if (c >= 'a' && c <= 'f') {
        digit = static_cast<uint32_t>(c - 'a' + 10);
      } else if (c >= 'A' && c <= 'F') {
        digit = static_cast<uint32_t>(c - 'A' + 10);
      } else {
        return Error("expected a hexadecimal digit");
      }
      value = value * 16 + digit;
      ++pos_;
    }
    return CheckPoint(value, point);
  }

  Status CheckPoint(uint32_t value, uint32_t* point) {
    if (value > kMaxCodePoint || (value >= 0xD800 && value <= 0xDFFF)) {
      return Error("not a code point");
    }
    *point = value;
    return Status::Ok();
  }

  Status ParseUtf8(uint32_t* point) {
    const auto byte_at = [&](size_t i) {
      return pos_ + i < text_.size() ? static_cast<uint8_t>(text_[pos_ + i])
                                     : 0U;
    };
    const uint32_t lead = byte_at(0);
    size_t length = 1;
    uint32_t value = lead;
    if (lead >= 0x80) {
      if (lead >= 0xC2 && lead < 0xE0) {
        length = 2;
        value = lead & 0x1F;
      } else if (lead >= 0xE0 && lead < 0xF0) {
        length = 3;
        value = lead & 0x0F;
      } else if (lead >= 0xF0 && lead < 0xF5) {
        length = 4;
        value = lead & 0x07;
      } else {
        return Error("invalid UTF-8");
      }
    }
    for (size_t i = 1; i < length; ++i) {
      const uint32_t byte = byte_at(i);
      if ((byte & 0xC0) != 0x80) return Error("invalid UTF-8");
      value = (value << 6) | (byte & 0x3F);
    }
    pos_ += length;
    return CheckPoint(value, point);
  }

  GbnfElement BytesOf(const ByteSet& set) {
    const auto [it, added] =
        set_ids_.try_emplace(set, static_cast<uint32_t>(byte_sets_.size()));
    if (added) byte_sets_.push_back(set);
    return {Op::kBytes, it->second};
  }

  GbnfElement ClassOf(const std::vector<CodePointRange>& ranges) {
    if (const auto it = class_ids_.find(ranges); it != class_ids_.end()) {
      return it->second;
    }
    ByteSet ascii;
    Alternatives alternatives;
    for (const auto& range : ranges) {
      std::vector<Utf8Sequence> sequences;
      AppendUtf8Sequences(range, &sequences);
      for (const Utf8Sequence& bytes : sequences) {
        if (bytes.size() == 1) {
          for (int b = bytes[0].first; b <= bytes[0].second; ++b) {
            ascii.set(static_cast<size_t>(b));
          }
          continue;
        }
        Sequence sequence;
        for (const auto& [low, high] : bytes) {
          ByteSet set;
          for (int b = low; b <= high; ++b) set.set(static_cast<size_t>(b));
          sequence.push_back(BytesOf(set));
        }
        alternatives.push_back(std::move(sequence));
      }
    }
    if (ascii.any()) alternatives.push_back({BytesOf(ascii)});
    GbnfElement element = alternatives[0][0];
    if (alternatives.size() > 1 || alternatives[0].size() > 1) {
      const uint32_t rule = NewRule();
      Define(rule, std::move(alternatives));
      element = {Op::kRule, rule};
    }
    class_ids_.emplace(ranges, element);
    return element;
  }

  Result<GbnfProgram> Flatten(uint32_t root) {
    GbnfProgram program;
    program.root = root;
    program.byte_sets = std::move(byte_sets_);
    program.elements.reserve(element_count_);
    for (const Alternatives& alternatives : rules_) {
      auto& starts = program.rules.emplace_back();
      for (const Sequence& sequence : alternatives) {
        starts.push_back(static_cast<uint32_t>(program.elements.size()));
        program.elements.insert(program.elements.end(), sequence.begin(),
                                sequence.end());
        program.elements.push_back({Op::kEnd, 0});
      }
    }
    return program;
  }

  std::string_view text_;
  size_t pos_ = 0;
  std::map<std::string, uint32_t, std::less<>> names_;
  std::vector<Alternatives> rules_;
  size_t element_count_ = 0;
  std::vector<ByteSet> byte_sets_;
  std::unordered_map<ByteSet, uint32_t> set_ids_;
  std::map<std::vector<CodePointRange>, GbnfElement> class_ids_;
};

uint32_t ShortestAlternative(const GbnfProgram& program, uint32_t rule) {
  uint32_t shortest = GbnfProgram::kNeverEnds;
  for (uint32_t start : program.rules[rule]) {
    shortest = std::min(shortest, program.bytes_to_end[start]);
  }
  return shortest;
}

// Fills bytes_to_end: the least fixed point, from "never ends" downwards.
Status MeasureRules(GbnfProgram* program) {
  std::vector<uint32_t> shortest(program->rules.size(),
                                 GbnfProgram::kNeverEnds);
  program->bytes_to_end.assign(program->elements.size(),
                               GbnfProgram::kNeverEnds);
  const auto update = [&](uint32_t rule) {
    for (uint32_t start : program->rules[rule]) {
      uint32_t end = start;
      while (program->elements[end].op != Op::kEnd) ++end;
      uint32_t rest = 0;
      program->bytes_to_end[end] = 0;
      while (end-- > start) {
        const GbnfElement& element = program->elements[end];
        rest += element.op == Op::kBytes ? 1 : shortest[element.arg];
        rest = std::min(rest, GbnfProgram::kNeverEnds);
        program->bytes_to_end[end] = rest;
      }
    }
    const uint32_t now = ShortestAlternative(*program, rule);
    if (now == shortest[rule]) return false;
    shortest[rule] = now;
    return true;
  };
  const auto count = static_cast<uint32_t>(program->rules.size());
  for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
    // Both directions in turn: rules refer to others before and after them.
    bool changed = false;
    for (uint32_t i = 0; i < count; ++i) {
      changed |= update(sweep % 2 == 0 ? i : count - 1 - i);
    }
    if (changed) continue;
    if (shortest[program->root] >= GbnfProgram::kNeverEnds) {
      return UnimplementedError(
          "the grammar matches no finite text: a rule always leads back to "
          "itself");
    }
    return Status::Ok();
  }
  return UnimplementedError("the grammar's rules are nested too deep");
}

// A rule that can start with itself would make the matcher expand for ever.
Status RefuseLeftRecursion(const GbnfProgram& program) {
  enum : uint8_t { kNew, kOpen, kDone };
  std::vector<uint8_t> state(program.rules.size(), kNew);
  // Rules that may stand first in a rule.
  const auto firsts = [&](uint32_t rule) {
    std::vector<uint32_t> result;
    for (uint32_t pos : program.rules[rule]) {
      for (; program.elements[pos].op == Op::kRule; ++pos) {
        result.push_back(program.elements[pos].arg);
        if (ShortestAlternative(program, program.elements[pos].arg) > 0) break;
      }
    }
    return result;
  };
  struct Visit {
    uint32_t rule;
    std::vector<uint32_t> next;
  };
  for (uint32_t start = 0; start < program.rules.size(); ++start) {
    if (state[start] != kNew) continue;
    std::vector<Visit> stack;
    stack.push_back({start, firsts(start)});
    state[start] = kOpen;
    while (!stack.empty()) {
      if (stack.back().next.empty()) {
        state[stack.back().rule] = kDone;
        stack.pop_back();
        continue;
      }
      const uint32_t rule = stack.back().next.back();
      stack.back().next.pop_back();
      if (state[rule] == kOpen) {
        return UnimplementedError("the grammar is left-recursive");
      }
      if (state[rule] == kDone) continue;
      state[rule] = kOpen;
      stack.push_back({rule, firsts(rule)});
    }
  }
  return Status::Ok();
}

}  // namespace

Result<GbnfProgram> ParseGbnf(std::string_view text) {
  NEXUS_ASSIGN_OR_RETURN(GbnfProgram program, Parser(text).Parse());
  NEXUS_RETURN_IF_ERROR(MeasureRules(&program));
  NEXUS_RETURN_IF_ERROR(RefuseLeftRecursion(program));
  return program;
}

}  // namespace nexus::llm
