#include "nexus/llm/vocabulary_index.h"

#include <algorithm>
#include <utility>

#include "llama.h"

namespace nexus::llm {
namespace {

constexpr int kNotText = LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN |
                         LLAMA_TOKEN_ATTR_UNUSED;

uint32_t SharedPrefix(std::string_view a, std::string_view b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<uint32_t>(end.first - a.begin());
}

}  // namespace

VocabularyIndex::VocabularyIndex(const Model& model) {
  const llama_vocab* vocab = llama_model_get_vocab(model.handle());
  const int count = model.info().vocab_size;
  std::vector<std::pair<std::string, Token>> sorted;
  sorted.reserve(static_cast<size_t>(count));
  for (Token token = 0; token < count; ++token) {
    if (model.IsEndOfGeneration(token)) {
      end_tokens_.push_back(token);
      continue;
    }
    if ((llama_vocab_get_attr(vocab, token) & kNotText) != 0) continue;
    std::string text = model.TokenText(token);
    if (!text.empty()) sorted.emplace_back(std::move(text), token);
  }
  std::sort(sorted.begin(), sorted.end());

  entry_of_.assign(static_cast<size_t>(count), -1);
  entries_.reserve(sorted.size());
  offsets_.reserve(sorted.size());
  std::string_view previous;
  for (const auto& [text, token] : sorted) {
    entry_of_[static_cast<size_t>(token)] =
        static_cast<int32_t>(entries_.size());
    offsets_.push_back(static_cast<uint32_t>(texts_.size()));
    entries_.push_back({token, static_cast<uint32_t>(text.size()),
                        SharedPrefix(previous, text)});
    texts_ += text;
    longest_ = std::max(longest_, entries_.back().length);
    previous = text;
  }
}

std::string_view VocabularyIndex::Text(Token token) const {
  if (token < 0 || static_cast<size_t>(token) >= entry_of_.size()) return {};
  const int32_t entry = entry_of_[static_cast<size_t>(token)];
  return entry < 0 ? std::string_view() : EntryText(static_cast<size_t>(entry));
}

}  // namespace nexus::llm
