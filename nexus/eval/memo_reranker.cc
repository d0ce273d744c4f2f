#include "nexus/eval/memo_reranker.h"

#include <utility>

namespace nexus::eval {
namespace {

// The query's length parts it from the document.
Sha256Digest KeyOf(std::string_view query, const std::string& document) {
  Sha256 hash;
  hash.Update(std::to_string(query.size()) + ":");
  hash.Update(query);
  hash.Update(document);
  return hash.Finish();
}

}  // namespace

Result<std::vector<float>> MemoReranker::Score(
    std::string_view query, std::span<const std::string> documents) {
  std::vector<Sha256Digest> keys;
  std::vector<std::string> missing;
  std::vector<Sha256Digest> missing_keys;
  for (const std::string& document : documents) {
    keys.push_back(KeyOf(query, document));
    if (known_.Find(keys.back()) == nullptr) {
      missing.push_back(document);
      missing_keys.push_back(keys.back());
    }
  }
  if (!missing.empty()) {
    NEXUS_ASSIGN_OR_RETURN(const auto scores, reranker_.Score(query, missing));
    if (scores.size() != missing.size()) {
      return InternalError("the re-ranker gave " +
                           std::to_string(scores.size()) + " scores for " +
                           std::to_string(missing.size()) + " tools");
    }
    scored_count_ += static_cast<int>(missing.size());
    for (size_t i = 0; i < missing.size(); ++i) {
      known_.Put(missing_keys[i], {scores[i]});
    }
  }
  std::vector<float> out;
  out.reserve(keys.size());
  for (const Sha256Digest& key : keys) out.push_back(known_.Find(key)->front());
  return out;
}

}  // namespace nexus::eval
