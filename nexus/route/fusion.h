// Fusion: one order out of the dense ranking, the BM25 ranking and exact names.
//
// With a weight that was learnt for the encoder (router_profile.h): the convex
// kind (Bruch, Gai and Ingber 2023), cosine + weight * BM25 / best BM25 of the
// scope. It keeps what ranks lose: how far ahead a tool is.
// Without: reciprocal rank fusion (Cormack, Clarke and Buettcher 2009), a
// tool's score is the sum over rankings of 1 / (60 + rank), which needs no
// common scale for cosine and BM25.
// Exact names come before everything: a user who writes a tool's name means
// that tool, and an embedding can't tell `delete_file` from `delete_files`.
#ifndef NEXUS_ROUTE_FUSION_H_
#define NEXUS_ROUTE_FUSION_H_

#include <span>
#include <vector>

#include "nexus/route/name_index.h"

namespace nexus::route {

struct Candidate {
  int tool = -1;    // index into ToolIndex::tools()
  float score = 0;  // fused, 2 at most; an exact name gets 4 or more
  float dense = 0;  // cosine; 0 without an encoder
  float bm25 = 0;
  float pair = 0;      // the re-ranker's; 0 where none has read it
  int dense_rank = 0;  // 1 is best; 0: not ranked
  int bm25_rank = 0;
  bool exact_name = false;
};

inline constexpr int kReciprocalRankOffset = 60;
// Ranks below this add nothing: a tool that is 500th in both rankings is noise.
inline constexpr int kFusionDepth = 100;

// The best `depth` tools of `scope` by `scores` (one a tool), best first, equal
// scores in scope's order. Scores of zero or less, and NaN, aren't ranked when
// `scores_are_lexical`: no word in common is no rank.
struct RankOptions {
  int depth = kFusionDepth;
  bool scores_are_lexical = false;
};
std::vector<int> RankTools(std::span<const float> scores,
                           std::span<const int> scope,
                           const RankOptions& options = {});

// cosine + `bm25_weight` (0 to 1) * BM25 / the scope's best BM25, one score a
// tool. A cosine that isn't a number counts as 0.
std::vector<float> BlendScores(std::span<const float> dense,
                               std::span<const float> bm25,
                               std::span<const int> scope, float bm25_weight);

struct FusionInput {
  // One score a tool; either may be empty (no encoder, empty query).
  std::span<const float> dense;
  std::span<const float> bm25;
  // By BlendScores; empty: reciprocal ranks.
  std::span<const float> blended;
  // By RankTools.
  std::span<const int> dense_order;
  std::span<const int> bm25_order;
  // Tools outside the scope already removed.
  std::span<const NameMention> mentions;
};

// Best first: exact names in order of appearance, then the fused order; equal
// scores by dense score, then by tool. At most `top_k`, but each mention has
// its best tool among them.
std::vector<Candidate> Fuse(const FusionInput& input, int top_k);

}  // namespace nexus::route

#endif  // NEXUS_ROUTE_FUSION_H_
