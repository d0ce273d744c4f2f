#include "nexus/route/bm25.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "nexus/route/utf8.h"

namespace nexus::route {
namespace {

// English words that say nothing about which tool: articles, pronouns,
// auxiliary verbs, prepositions, and the politeness of chat. No verbs or nouns
// that could be a tool's ("get", "find", "list" stay).
bool IsFunctionWord(const std::string& word) {
  static const auto* const kWords = new std::unordered_set<std::string>{
      "a",      "about", "am",    "an",    "and",    "any",   "are",  "as",
      "at",     "be",    "been",  "being", "but",    "by",    "can",  "could",
      "did",    "do",    "does",  "for",   "from",   "had",   "has",  "have",
      "he",     "her",   "hi",    "his",   "how",    "i",     "if",   "in",
      "into",   "is",    "it",    "its",   "like",   "ll",    "m",    "may",
      "me",     "might", "my",    "need",  "of",     "on",    "or",   "our",
      "please", "re",    "s",     "she",   "should", "so",    "some", "such",
      "t",      "than",  "that",  "the",   "their",  "them",  "then", "there",
      "these",  "they",  "this",  "those", "to",     "ve",    "want", "was",
      "we",     "were",  "what",  "when",  "where",  "which", "who",  "why",
      "will",   "with",  "would", "you",   "your"};
  return kWords->contains(word);
}

// Korean words are read in overlapping pairs of syllables: a noun is found
// whatever particle follows it without a space.
constexpr size_t kHangulBytes = 3;

// Distinct words in order of first appearance.
std::vector<std::string> QueryTerms(std::string_view query,
                                    bool drop_function_words) {
  std::vector<std::string> terms;
  std::unordered_set<std::string> seen;
  for (std::string& word : SplitWords(query)) {
    if (seen.insert(word).second) terms.push_back(std::move(word));
  }
  if (drop_function_words &&
      !std::all_of(terms.begin(), terms.end(), IsFunctionWord)) {
    std::erase_if(terms, IsFunctionWord);
  }
  return terms;
}

}  // namespace

std::vector<std::string> SplitWords(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  const auto flush = [&] {
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
  };

  CharacterClass previous = CharacterClass::kSeparator;
  size_t last_character_bytes = 0;  // of the character at the end of `word`
  for (size_t i = 0; i < text.size();) {
    const CodePoint c = DecodeUtf8(text, i);
    i += c.byte_count;
    const CharacterClass kind =
        c.valid ? Classify(c.value) : CharacterClass::kSeparator;
    if (kind == CharacterClass::kSeparator ||
        kind == CharacterClass::kIdeograph ||
        previous == CharacterClass::kIdeograph ||
        (kind == CharacterClass::kDigit) !=
            (previous == CharacterClass::kDigit) ||
        (kind == CharacterClass::kHangul) !=
            (previous == CharacterClass::kHangul) ||
        (kind == CharacterClass::kUpper &&
         previous == CharacterClass::kLower)) {
      flush();
    } else if (kind == CharacterClass::kLower &&
               previous == CharacterClass::kUpper &&
               word.size() > last_character_bytes) {
      // "JSONFile": the last capital starts the next word.
      std::string start = word.substr(word.size() - last_character_bytes);
      word.resize(word.size() - last_character_bytes);
      flush();
      word = std::move(start);
    }
    previous = kind;
    if (kind == CharacterClass::kSeparator) continue;
    if (kind == CharacterClass::kHangul && word.size() == 2 * kHangulBytes) {
      words.push_back(word);
      word.erase(0, kHangulBytes);
    }
    const size_t before = word.size();
    AppendUtf8(FoldCase(c.value), &word);
    last_character_bytes = word.size() - before;
  }
  flush();
  return words;
}

Bm25Index::Bm25Index(std::span<const std::string> documents,
                     const Bm25Options& options)
    : options_(options), document_count_(static_cast<int>(documents.size())) {
  std::vector<uint32_t> lengths;  // in words
  lengths.reserve(documents.size());
  double total_length = 0;
  for (uint32_t document = 0; document < documents.size(); ++document) {
    const std::vector<std::string> words = SplitWords(documents[document]);
    lengths.push_back(static_cast<uint32_t>(words.size()));
    total_length += static_cast<double>(words.size());
    for (const std::string& word : words) {
      const auto [it, is_new] =
          term_ids_.try_emplace(word, static_cast<uint32_t>(postings_.size()));
      if (is_new) postings_.emplace_back();
      // `weight` counts occurrences until the loop below.
      std::vector<Posting>& list = postings_[it->second];
      if (list.empty() || list.back().document != document) {
        list.push_back({document, 0});
      }
      list.back().weight += 1;
    }
  }

  const double count = static_cast<double>(documents.size());
  const double average = std::max(total_length / std::max(count, 1.0), 1e-9);
  const double k1 = options.k1;
  const double b = options.b;
  for (std::vector<Posting>& list : postings_) {
    const double holders = static_cast<double>(list.size());
    const double idf = std::log(1 + (count - holders + 0.5) / (holders + 0.5));
    for (Posting& posting : list) {
      const double frequency = posting.weight;
      const double norm =
          k1 * (1 - b + b * lengths[posting.document] / average);
      posting.weight =
          static_cast<float>(idf * frequency * (k1 + 1) / (frequency + norm));
    }
  }
}

std::vector<float> Bm25Index::Score(std::string_view query) const {
  std::vector<float> scores(static_cast<size_t>(document_count_), 0.0F);
  for (const std::string& term :
       QueryTerms(query, options_.drop_function_words)) {
    const auto it = term_ids_.find(term);
    if (it == term_ids_.end()) continue;
    for (const Posting& posting : postings_[it->second]) {
      scores[posting.document] += posting.weight;
    }
  }
  return scores;
}

}  // namespace nexus::route
