// The query is walked once. A "run" is a longest stretch of ASCII letters,
// digits and "_-./:"; most names are one run, so most of the work is a hash
// look-up a run. Names with spaces or letters outside ASCII ("phrases") are
// looked up by their first run, or first character if that isn't ASCII, and
// then compared in full.
#include "nexus/route/name_index.h"

#include <algorithm>
#include <utility>

#include "nexus/route/utf8.h"

namespace nexus::route {
namespace {

bool IsAsciiAlnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9');
}

bool IsRunCharacter(char c) {
  return IsAsciiAlnum(c) || c == '_' || c == '-' || c == '.' || c == '/' ||
         c == ':';
}

bool IsAscii(char c) { return static_cast<unsigned char>(c) < 0x80; }

size_t RunEnd(std::string_view text, size_t begin) {
  while (begin < text.size() && IsRunCharacter(text[begin])) ++begin;
  return begin;
}

// Whether the character that starts (or ends) at the border of a match would go
// on with the same word. Korean particles follow a name without a space.
bool IsWordCharacter(char32_t c) {
  if (c == '_') return true;
  const CharacterClass kind = Classify(c);
  return kind == CharacterClass::kLower || kind == CharacterClass::kUpper ||
         kind == CharacterClass::kDigit;
}

char32_t CharacterBefore(std::string_view text, size_t offset) {
  size_t begin = offset;
  while (begin > 0 && offset - begin < 4) {
    --begin;
    if ((static_cast<unsigned char>(text[begin]) & 0xC0) != 0x80) break;
  }
  if (begin == offset) return ' ';
  const CodePoint c = DecodeUtf8(text, begin);
  return c.valid && begin + c.byte_count == offset ? c.value : ' ';
}

char32_t CharacterAt(std::string_view text, size_t offset) {
  if (offset >= text.size()) return ' ';
  const CodePoint c = DecodeUtf8(text, offset);
  return c.valid ? c.value : ' ';
}

bool IsWholeWord(std::string_view text, size_t begin, size_t end) {
  const bool joins_before = IsWordCharacter(CharacterBefore(text, begin)) &&
                            IsWordCharacter(CharacterAt(text, begin));
  const bool joins_after = IsWordCharacter(CharacterBefore(text, end)) &&
                           IsWordCharacter(CharacterAt(text, end));
  return !joins_before && !joins_after;
}

// A name that nobody writes by accident in a sentence. Words of one case are
// ordinary language, and so are short ideographic words: most Chinese verbs are
// two characters.
bool LooksLikeIdentifier(std::string_view name) {
  int ideographs = 0;
  for (size_t i = 0; i < name.size();) {
    const CodePoint c = DecodeUtf8(name, i);
    switch (c.valid ? Classify(c.value) : CharacterClass::kSeparator) {
      case CharacterClass::kSeparator:
      case CharacterClass::kDigit:
        return true;
      case CharacterClass::kUpper:
        if (i > 0) return true;
        break;
      case CharacterClass::kIdeograph:
      case CharacterClass::kHangul:
        ++ideographs;
        break;
      case CharacterClass::kLower:
        break;
    }
    i += c.byte_count;
  }
  return ideographs >= 4;
}

std::string PhraseKey(std::string_view folded_name) {
  const size_t run_end = RunEnd(folded_name, 0);
  if (run_end > 0) return std::string(folded_name.substr(0, run_end));
  return std::string(
      folded_name.substr(0, DecodeUtf8(folded_name, 0).byte_count));
}

// The word that ends before `end` or starts after `begin`, skipping spaces and
// punctuation in between.
std::string_view WordBefore(std::string_view text, size_t end) {
  while (end > 0 && IsAscii(text[end - 1]) && !IsAsciiAlnum(text[end - 1])) {
    --end;
  }
  size_t begin = end;
  while (begin > 0 && IsAsciiAlnum(text[begin - 1])) --begin;
  return text.substr(begin, end - begin);
}

std::string_view WordAfter(std::string_view text, size_t begin) {
  while (begin < text.size() && text[begin] == ' ') ++begin;
  size_t end = begin;
  while (end < text.size() && IsAsciiAlnum(text[end])) ++end;
  return text.substr(begin, end - begin);
}

// Whether the sentence says that the word at [begin, end) is a tool's name.
bool IsMarkedAsName(std::string_view folded, size_t begin, size_t end) {
  if (begin > 0 && folded[begin - 1] == '`' && end < folded.size() &&
      folded[end] == '`') {
    return true;
  }
  std::string_view before = WordBefore(folded, begin);
  if (before == "the") {
    before =
        WordBefore(folded, static_cast<size_t>(before.data() - folded.data()));
  }
  const std::string_view after = WordAfter(folded, end);
  if (before == "tool" || before == "function" || before == "call" ||
      after == "tool" || after == "function") {
    return true;
  }
  return false;
}

}  // namespace

NameIndex::NameIndex(std::span<const schema::ToolSchema> tools) {
  for (size_t i = 0; i < tools.size(); ++i) {
    const schema::ToolSchema& tool = tools[i];
    const int index = static_cast<int>(i);
    Add(tool.name, index, LooksLikeIdentifier(tool.name));
    if (tool.server.empty()) continue;
    // As people write it, and as clients join server and tool into one name.
    for (const char* joint : {"/", ".", ":", "__"}) {
      Add(tool.server + joint + tool.name, index, true);
    }
    Add("mcp__" + tool.server + "__" + tool.name, index, true);
  }
  for (auto& [key, names] : phrases_) {
    std::sort(names.begin(), names.end(),
              [](const std::string& a, const std::string& b) {
                return a.size() != b.size() ? a.size() > b.size() : a < b;
              });
  }
}

void NameIndex::Add(const std::string& name, int tool, bool identifier) {
  if (name.empty()) return;
  const std::string folded = FoldCase(name);
  const auto [it, is_new] = entries_.try_emplace(folded);
  it->second.spellings.push_back({name, tool});
  it->second.identifier |= identifier;
  if (is_new && RunEnd(folded, 0) != folded.size()) {
    phrases_[PhraseKey(folded)].push_back(folded);
  }
}

NameIndex::Match NameIndex::FindPhrase(std::string_view folded, size_t begin,
                                       const std::string& key) const {
  const auto it = phrases_.find(key);
  if (it == phrases_.end()) return {};
  for (const std::string& name : it->second) {
    if (folded.substr(begin, name.size()) != name) continue;
    const size_t end = begin + name.size();
    if (!IsWholeWord(folded, begin, end)) continue;
    return {&entries_.at(name), begin, end};
  }
  return {};
}

std::vector<NameMention> NameIndex::Find(std::string_view query) const {
  // Folding keeps the length of every character, so offsets are the query's.
  const std::string folded = FoldCase(query);
  const std::string_view text = folded;
  std::vector<NameMention> mentions;
  std::unordered_map<const Entry*, size_t> mention_of;
  const size_t first = text.find_first_not_of(" \t\r\n");
  const size_t last = text.find_last_not_of(" \t\r\n");

  const auto accept = [&](const Match& match) {
    const auto [known, is_new] =
        mention_of.try_emplace(match.entry, mentions.size());
    if (!is_new && !mentions[known->second].plain_word) return;
    const bool is_whole_query = match.begin == first && match.end == last + 1;
    const bool plain = !match.entry->identifier && !is_whole_query &&
                       !IsMarkedAsName(text, match.begin, match.end);
    if (!is_new) {
      // Named before as plain English; a later mark ("... the search tool")
      // counts.
      mentions[known->second].plain_word = plain;
      return;
    }
    NameMention mention;
    mention.offset_bytes = match.begin;
    mention.plain_word = plain;
    const std::string_view written =
        query.substr(match.begin, match.end - match.begin);
    for (const bool own_case : {true, false}) {
      for (const Spelling& spelling : match.entry->spellings) {
        if (own_case && spelling.name != written) continue;
        mention.tools.push_back(spelling.tool);
      }
      if (!mention.tools.empty()) break;
    }
    mentions.push_back(std::move(mention));
  };
  const auto accept_word = [&](size_t begin, size_t end) {
    const auto it = entries_.find(folded.substr(begin, end - begin));
    if (it == entries_.end() || !IsWholeWord(text, begin, end)) return false;
    accept({&it->second, begin, end});
    return true;
  };

  for (size_t i = 0; i < text.size();) {
    const size_t run_end = RunEnd(text, i);
    if (run_end == i) {
      const CodePoint c = DecodeUtf8(text, i);
      const Match phrase = FindPhrase(text, i, folded.substr(i, c.byte_count));
      if (phrase.entry != nullptr) accept(phrase);
      i = phrase.entry != nullptr ? phrase.end : i + c.byte_count;
      continue;
    }
    const Match phrase = FindPhrase(text, i, folded.substr(i, run_end - i));
    if (phrase.entry != nullptr) {
      accept(phrase);
      i = phrase.end;
      continue;
    }
    // Punctuation around a name isn't part of it ("run create_issue.").
    size_t begin = i;
    size_t end = run_end;
    while (begin < end && !IsAsciiAlnum(text[begin]) && text[begin] != '_') {
      ++begin;
    }
    while (end > begin && !IsAsciiAlnum(text[end - 1]) &&
           text[end - 1] != '_') {
      --end;
    }
    const std::string_view run = text.substr(begin, end - begin);
    // The parts of "create_issue/list_issues", but not of a path or an address.
    const bool is_path = begin > i || run.find("//") != std::string_view::npos;
    if (!run.empty() && !accept_word(begin, end) && !is_path) {
      for (size_t part = begin; part < end;) {
        // Within the run: a search to the end of the query would make long
        // queries quadratic.
        const size_t joint = run.find_first_of("./:", part - begin);
        const size_t part_end =
            joint == std::string_view::npos ? end : begin + joint;
        if (part_end > part) accept_word(part, part_end);
        part = part_end + 1;
      }
    }
    i = run_end;
  }
  return mentions;
}

}  // namespace nexus::route
