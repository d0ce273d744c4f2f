// Baselines: the rankings that the router is compared with in every table.
//
//   bm25        k1 0.9, b 0.4, every word of the query, the pool's statistics
//   dense-fp32  cosine of an encoder in float32
//   dense-int8  the same through the SLB's rows
//   rrf         reciprocal rank fusion of bm25 and dense-int8, no names, no
//   gate
//
// A cosine doesn't depend on the pool, so a query is compared with the whole
// registry once and every pool takes its share.
#ifndef NEXUS_EVAL_BASELINE_RANKINGS_H_
#define NEXUS_EVAL_BASELINE_RANKINGS_H_

#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/llm/embedder.h"
#include "nexus/route/fusion.h"
#include "nexus/route/tool_index.h"

namespace nexus::eval {

enum class Ranking { kBm25, kDenseFp32, kDenseInt8, kFused, kNexus };
inline constexpr size_t kRankingCount = 5;
inline constexpr std::array<std::string_view, kRankingCount> kRankingNames = {
    "bm25", "dense-fp32", "dense-int8", "rrf", "nexus"};

// BM25 as published: function words of the query count.
inline constexpr route::Bm25Options kPlainBm25 = {
    .k1 = 0.9F, .b = 0.4F, .drop_function_words = false};

// Thread-compatible.
class BaselineRankings {
 public:
  // `encoder` null: BM25 only. Both must outlive it.
  static Result<BaselineRankings> Make(const route::ToolIndex& registry,
                                       llm::Embedder* encoder);

  bool has_encoder() const { return encoder_ != nullptr; }

  // One score for each tool of the registry; empty without an encoder.
  struct Scores {
    std::vector<float> fp32;
    std::vector<float> int8;
  };
  Result<Scores> Score(const std::string& query) const;

  // Best first, in numbers of the registry; what needs an encoder is empty
  // without one, and so is kNexus.
  using Orders = std::array<std::vector<int>, kRankingCount>;
  Orders Rank(const std::string& query, const Scores& scores,
              std::span<const int> pool,
              const route::Bm25Index& pool_bm25) const;

 private:
  explicit BaselineRankings(llm::Embedder* encoder)
      : encoder_(encoder),
        slb_(encoder != nullptr ? encoder->dimension() : 1) {}

  llm::Embedder* encoder_;
  std::vector<std::vector<float>> vectors_;  // [tool][dimension]
  route::Slb slb_;
};

}  // namespace nexus::eval

#endif  // NEXUS_EVAL_BASELINE_RANKINGS_H_
