// RouteStudy: labelled queries through the real router, over pools of tools.
//
// For each query, pool size and seed a real ToolIndex is built of the pool's
// tools, with the pool's own BM25 statistics, and the real Router decides, with
// its gate and its re-ranker. Nothing is embedded twice. Latency is measured
// apart, with the encoder itself, on a sample.
#ifndef NEXUS_EVAL_ROUTE_STUDY_H_
#define NEXUS_EVAL_ROUTE_STUDY_H_

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/eval/baseline_rankings.h"
#include "nexus/eval/gold_table.h"
#include "nexus/eval/tool_pool.h"
#include "nexus/route/router.h"

namespace nexus::eval {

struct RouteStudyOptions {
  PoolKind pool = PoolKind::kAll;
  // Tools a pool, ascending; larger than the registry: all of it. Ignored for
  // kAll.
  std::vector<int> sizes;
  int seeds = 5;
  // Each query that is in scope once more, with its right tools taken out.
  bool near_miss = false;
  TwinLabels twins;  // that count as one tool, beside equal ones
  route::RouterOptions router;
  int latency_queries = 50;
  // Tokens of a tool's schema in the prompt; null: not counted.
  std::function<Result<int>(const schema::ToolSchema&)> count_tokens;
  std::function<void(int done, int total)> embedding_progress;
  std::function<void(int done, int total)> query_progress;
  const std::atomic<bool>* cancel = nullptr;
};

// All may be null: without an encoder BM25 decides.
struct RouteStudyModels {
  llm::Embedder* encoder = nullptr;    // under test; remembers (MemoEmbedder)
  llm::Embedder* uncached = nullptr;   // the same, for latency; null: none
  llm::Embedder* baseline = nullptr;   // un-tuned; null: `encoder`
  llm::Embedder* neighbour = nullptr;  // chooses neighbours; null: BM25
  llm::Reranker* reranker = nullptr;   // remembers (MemoReranker)
  llm::Reranker* uncached_reranker = nullptr;  // the same, for latency
};

enum class QueryKind { kInScope, kOutOfScope, kNearMiss };

inline constexpr size_t kKeptCandidates = 10;

// One query over one pool.
struct RouteTrial {
  int query = 0;  // of RouteStudy::labels
  QueryKind kind = QueryKind::kInScope;
  uint64_t seed = 0;
  int pool_tools = 0;

  route::Outcome outcome = route::Outcome::kAbstain;
  std::string rule;
  int chosen = -1;         // best candidate, of the registry; -1: none
  std::vector<int> first;  // the best candidates, at most kKeptCandidates
  float margin = 0;        // as the decision has it
  bool reranked = false;
  // Signals over all of the pool: the best cosine, and its lead over the next
  // that isn't a twin. Without an encoder: BM25's.
  float top_score = 0;
  float lead = 0;

  // What the paper's margin rule says with its own tau, whatever gate is in
  // force; without an encoder the same as above.
  route::Outcome paper_outcome = route::Outcome::kAbstain;
  int paper_chosen = -1;

  std::array<Hits, kRankingCount> hits;  // in scope only
  // A write tool is first, and the query asked for one that only reads.
  bool read_wanted = false;
  bool write_chosen = false;
  // Of the served model: every schema of the pool, BM25's first five, the one
  // that was chosen.
  int tokens_all = 0;
  int tokens_bm25_top5 = 0;
  int tokens_chosen = 0;
};

struct StudyPoint {
  int size = 0;  // asked for; the registry's for kAll
  std::vector<RouteTrial> trials;
  std::vector<route::RouteTimings> timings;
};

struct RouteStudy {
  std::shared_ptr<const route::ToolIndex> registry;
  GoldTable labels;
  PoolKind pool = PoolKind::kAll;
  int seeds = 1;
  bool has_encoder = false;
  bool has_reranker = false;
  bool has_tokens = false;
  std::vector<StudyPoint> points;
  std::vector<std::string> warnings;
};

// kInvalidArgument: no tools, no queries. kCancelled. Errors of the encoder.
Result<RouteStudy> RunRouteStudy(std::vector<schema::ToolSchema> tools,
                                 std::vector<LabelledQuery> queries,
                                 const RouteStudyModels& models,
                                 const RouteStudyOptions& options);

}  // namespace nexus::eval

#endif  // NEXUS_EVAL_ROUTE_STUDY_H_
