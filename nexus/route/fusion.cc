#include "nexus/route/fusion.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace nexus::route {
namespace {

// Above any fused score.
constexpr float kNameBonus = 4;

float ScoreOf(std::span<const float> scores, int tool) {
  return scores.empty() ? 0.0F : scores[static_cast<size_t>(tool)];
}

bool Better(const Candidate& a, const Candidate& b) {
  if (a.score != b.score) return a.score > b.score;
  if (a.dense != b.dense) return a.dense > b.dense;
  return a.tool < b.tool;
}

}  // namespace

std::vector<int> RankTools(std::span<const float> scores,
                           std::span<const int> scope,
                           const RankOptions& options) {
  std::vector<int> order;
  if (scores.empty()) return order;
  order.reserve(scope.size());
  for (const int tool : scope) {
    const float score = scores[static_cast<size_t>(tool)];
    if (std::isnan(score)) continue;  // would break the sort
    if (!options.scores_are_lexical || score > 0) order.push_back(tool);
  }
  const size_t kept =
      std::min(order.size(), static_cast<size_t>(std::max(options.depth, 0)));
  std::partial_sort(order.begin(), order.begin() + static_cast<long>(kept),
                    order.end(), [&](int a, int b) {
                      const float x = scores[static_cast<size_t>(a)];
                      const float y = scores[static_cast<size_t>(b)];
                      return x != y ? x > y : a < b;
                    });
  order.resize(kept);
  return order;
}

std::vector<float> BlendScores(std::span<const float> dense,
                               std::span<const float> bm25,
                               std::span<const int> scope, float bm25_weight) {
  float best = 0;
  for (const int tool : scope) {
    best = std::max(best, bm25[static_cast<size_t>(tool)]);
  }
  const float scale = best > 0 ? bm25_weight / best : 0;
  std::vector<float> blended(dense.size());
  for (size_t i = 0; i < dense.size(); ++i) {
    blended[i] = (std::isnan(dense[i]) ? 0 : dense[i]) + scale * bm25[i];
  }
  return blended;
}

std::vector<Candidate> Fuse(const FusionInput& input, int top_k) {
  std::vector<Candidate> all;
  std::unordered_map<int, size_t> position;
  const auto candidate = [&](int tool) -> Candidate& {
    const auto [it, is_new] = position.try_emplace(tool, all.size());
    if (is_new) {
      all.push_back({.tool = tool,
                     .score = ScoreOf(input.blended, tool),
                     .dense = ScoreOf(input.dense, tool),
                     .bm25 = ScoreOf(input.bm25, tool)});
    }
    return all[it->second];
  };
  const auto add_ranking = [&](std::span<const int> order,
                               int Candidate::*rank_field) {
    int rank = 0;
    for (const int tool : order) {
      Candidate& c = candidate(tool);
      c.*rank_field = ++rank;
      if (!input.blended.empty()) continue;
      c.score += 1.0F / static_cast<float>(kReciprocalRankOffset + rank);
    }
  };
  add_ranking(input.dense_order, &Candidate::dense_rank);
  add_ranking(input.bm25_order, &Candidate::bm25_rank);

  // Exact names: the best tool of each mention in order of appearance, then the
  // others of the same names. Whole numbers above any fused score keep that
  // order.
  std::vector<int> required;
  const float mention_count = static_cast<float>(input.mentions.size());
  for (size_t m = 0; m < input.mentions.size(); ++m) {
    const NameMention& mention = input.mentions[m];
    if (mention.tools.empty()) continue;
    for (const int tool : mention.tools) candidate(tool);
    const auto better = [&](int a, int b) {
      return Better(all[position.at(a)], all[position.at(b)]);
    };
    const int best =
        *std::min_element(mention.tools.begin(), mention.tools.end(), better);
    required.push_back(best);
    if (mention.plain_word) continue;
    for (const int tool : mention.tools) {
      Candidate& c = candidate(tool);
      if (c.exact_name) continue;
      c.exact_name = true;
      c.score += tool == best
                     ? 2 * kNameBonus + mention_count - static_cast<float>(m)
                     : kNameBonus;
    }
  }

  std::sort(all.begin(), all.end(), Better);
  size_t kept = std::min(all.size(), static_cast<size_t>(std::max(top_k, 1)));
  // A mentioned tool below the cut moves up to behind it.
  for (size_t i = kept; i < all.size(); ++i) {
    if (std::find(required.begin(), required.end(), all[i].tool) !=
        required.end()) {
      std::rotate(all.begin() + static_cast<long>(kept),
                  all.begin() + static_cast<long>(i),
                  all.begin() + static_cast<long>(i) + 1);
      ++kept;
    }
  }
  all.resize(kept);
  return all;
}

}  // namespace nexus::route
