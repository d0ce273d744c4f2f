// VocabularyIndex: the texts of a vocabulary in byte order, to test a grammar
// against all of them at once.
//
// In sorted order a token shares its first bytes with the one before it.
// Walking them with a stack of matcher states tests each distinct prefix once,
// and a prefix that the grammar refuses rules out the whole run of tokens
// behind it. Internal to nexus/llm.
#ifndef NEXUS_LLM_VOCABULARY_INDEX_H_
#define NEXUS_LLM_VOCABULARY_INDEX_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/llm/grammar_matcher.h"
#include "nexus/llm/model.h"

namespace nexus::llm {

// Thread-safe after construction.
class VocabularyIndex {
 public:
  // Leaves out control tokens, which stand for no text of the answer, and
  // tokens without text.
  explicit VocabularyIndex(const Model& model);

  // Text of a token; empty for one that is left out.
  std::string_view Text(Token token) const;
  // Every token that ends a generation.
  const std::vector<Token>& end_tokens() const { return end_tokens_; }

  // Calls visit(token, state after it) for each token that may follow `state`.
  template <typename Visitor>
  void ForEachAllowed(GrammarMatcher& matcher, GrammarMatcher::State state,
                      Visitor visit) const;

 private:
  struct Entry {
    Token token = 0;
    uint32_t length = 0;
    uint32_t shared = 0;  // first bytes in common with the entry before
  };

  std::string_view EntryText(size_t entry) const {
    return {texts_.data() + offsets_[entry], entries_[entry].length};
  }

  std::vector<Entry> entries_;
  std::vector<uint32_t> offsets_;  // [entry] -> start in texts_
  std::vector<int32_t> entry_of_;  // [token] -> entry, -1: left out
  std::string texts_;
  std::vector<Token> end_tokens_;
  uint32_t longest_ = 0;
};

template <typename Visitor>
void VocabularyIndex::ForEachAllowed(GrammarMatcher& matcher,
                                     GrammarMatcher::State state,
                                     Visitor visit) const {
  constexpr uint32_t kNone = ~uint32_t{0};
  // states[n]: after the first n bytes of the entry walked last.
  std::vector<GrammarMatcher::State> states(longest_ + 1);
  states[0] = state;
  uint32_t refused = kNone;  // length of the prefix that the grammar refuses
  for (size_t i = 0; i < entries_.size(); ++i) {
    const Entry& entry = entries_[i];
    if (entry.shared >= refused) continue;
    refused = kNone;
    const std::string_view text = EntryText(i);
    for (uint32_t n = entry.shared; n < entry.length; ++n) {
      const auto next = matcher.Step(states[n], static_cast<uint8_t>(text[n]));
      if (next == GrammarMatcher::kDead) {
        refused = n + 1;
        break;
      }
      states[n + 1] = next;
    }
    if (refused == kNone) visit(entry.token, states[entry.length]);
  }
}

}  // namespace nexus::llm

#endif  // NEXUS_LLM_VOCABULARY_INDEX_H_
