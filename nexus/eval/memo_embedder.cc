#include "nexus/eval/memo_embedder.h"

#include <utility>

namespace nexus::eval {
namespace {

Sha256Digest KeyOf(const std::string& text, llm::TextRole role) {
  Sha256 hash;
  hash.Update(role == llm::TextRole::kQuery ? "q" : "d");
  hash.Update(text);
  return hash.Finish();
}

}  // namespace

Result<std::vector<std::vector<float>>> MemoEmbedder::Embed(
    std::span<const std::string> texts, llm::TextRole role) {
  std::vector<Sha256Digest> keys;
  std::vector<std::string> missing;
  std::vector<Sha256Digest> missing_keys;
  for (const std::string& text : texts) {
    keys.push_back(KeyOf(text, role));
    if (known_.Find(keys.back()) == nullptr) {
      missing.push_back(text);
      missing_keys.push_back(keys.back());
    }
  }
  if (!missing.empty()) {
    NEXUS_ASSIGN_OR_RETURN(auto vectors, encoder_.Embed(missing, role));
    if (vectors.size() != missing.size()) {
      return InternalError("the encoder gave " +
                           std::to_string(vectors.size()) + " vectors for " +
                           std::to_string(missing.size()) + " texts");
    }
    embedded_count_ += static_cast<int>(missing.size());
    for (size_t i = 0; i < missing.size(); ++i) {
      known_.Put(missing_keys[i], std::move(vectors[i]));
    }
  }
  std::vector<std::vector<float>> out;
  out.reserve(keys.size());
  for (const Sha256Digest& key : keys) out.push_back(*known_.Find(key));
  return out;
}

}  // namespace nexus::eval
