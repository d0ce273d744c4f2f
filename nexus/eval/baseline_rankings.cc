#include "nexus/eval/baseline_rankings.h"

#include <cmath>
#include <numeric>
#include <utility>

namespace nexus::eval {
namespace {

// Below every cosine: a vector that isn't finite finds nothing.
constexpr float kNoCosine = -2;

float Dot(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return kNoCosine;
  const float dot = std::inner_product(a.begin(), a.end(), b.begin(), 0.0F);
  return std::isfinite(dot) ? dot : kNoCosine;
}

std::vector<float> Pick(const std::vector<float>& scores,
                        std::span<const int> pool) {
  std::vector<float> picked;
  if (scores.empty()) return picked;
  picked.reserve(pool.size());
  for (const int tool : pool) {
    picked.push_back(scores[static_cast<size_t>(tool)]);
  }
  return picked;
}

}  // namespace

Result<BaselineRankings> BaselineRankings::Make(
    const route::ToolIndex& registry, llm::Embedder* encoder) {
  BaselineRankings baselines(encoder);
  if (encoder == nullptr) return baselines;
  const int count = static_cast<int>(registry.tools().size());
  for (int i = 0; i < count; ++i) {
    const std::string& text = registry.search_text(i);
    NEXUS_ASSIGN_OR_RETURN(
        auto vectors, encoder->Embed({&text, 1}, llm::TextRole::kDocument));
    baselines.vectors_.push_back(std::move(vectors.front()));
    // An unusable row scores zero, as in the router.
    static_cast<void>(
        baselines.slb_.Append(Sha256Of(text), baselines.vectors_.back()));
  }
  return baselines;
}

Result<BaselineRankings::Scores> BaselineRankings::Score(
    const std::string& query) const {
  Scores scores;
  if (encoder_ == nullptr) return scores;
  NEXUS_ASSIGN_OR_RETURN(const auto vectors,
                         encoder_->Embed({&query, 1}, llm::TextRole::kQuery));
  // A query that the encoder can't read is ranked by words, as in the router.
  auto int8 = slb_.ScoreAll(vectors.front());
  if (!int8.ok()) return scores;
  scores.int8 = std::move(int8).value();
  scores.fp32.reserve(vectors_.size());
  for (const std::vector<float>& row : vectors_) {
    scores.fp32.push_back(Dot(vectors.front(), row));
  }
  return scores;
}

BaselineRankings::Orders BaselineRankings::Rank(
    const std::string& query, const Scores& scores, std::span<const int> pool,
    const route::Bm25Index& pool_bm25) const {
  std::vector<int> scope(pool.size());
  std::iota(scope.begin(), scope.end(), 0);
  const std::vector<float> bm25 = pool_bm25.Score(query);
  const std::vector<float> int8 = Pick(scores.int8, pool);
  Orders orders;
  std::vector<int>& by_words = orders[static_cast<size_t>(Ranking::kBm25)];
  std::vector<int>& by_int8 = orders[static_cast<size_t>(Ranking::kDenseInt8)];
  by_words = route::RankTools(bm25, scope, {.scores_are_lexical = true});
  if (!int8.empty()) {
    by_int8 = route::RankTools(int8, scope);
    orders[static_cast<size_t>(Ranking::kDenseFp32)] =
        route::RankTools(Pick(scores.fp32, pool), scope);
    route::FusionInput input;
    input.dense = int8;
    input.bm25 = bm25;
    input.dense_order = by_int8;
    input.bm25_order = by_words;
    for (const route::Candidate& one :
         route::Fuse(input, route::kFusionDepth)) {
      orders[static_cast<size_t>(Ranking::kFused)].push_back(one.tool);
    }
  }
  for (std::vector<int>& order : orders) {
    for (int& tool : order) tool = pool[static_cast<size_t>(tool)];
  }
  return orders;
}

}  // namespace nexus::eval
