// Router: a query in, a tool (or a small set, or none) out, with the reason.
//
//   embed -> scan SLB -> BM25 -> fuse, exact names first -> gate -> several
//   tools? -> re-rank
//
// Text of tools is data: it is embedded and counted, never obeyed.
#ifndef NEXUS_ROUTE_ROUTER_H_
#define NEXUS_ROUTE_ROUTER_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/clock.h"
#include "nexus/base/mutex.h"
#include "nexus/base/result.h"
#include "nexus/llm/embedder.h"
#include "nexus/llm/reranker.h"
#include "nexus/route/fusion.h"
#include "nexus/route/gate.h"
#include "nexus/route/pair_gate.h"
#include "nexus/route/several_tools.h"
#include "nexus/route/tool_index.h"

namespace nexus::route {

struct RouterOptions {
  GateOptions gate;
  // Learnt for the encoder (router_profile.h); unset: reciprocal ranks.
  std::optional<float> bm25_weight;
  // Candidates that a re-ranker reads: hit@10 is what it can reach, and each
  // costs as much as embedding a tool.
  int rerank_depth = 10;
  PairGateOptions pairs;
  SeveralToolsOptions several;
  const Clock* clock = nullptr;  // null: the monotonic one
};

struct RouteOptions {
  int top_k = 5;
  // Only tools of these servers; empty: all.
  std::vector<std::string> servers;
};

struct RouteTimings {
  double embed_us = 0;
  double scan_us = 0;
  double bm25_us = 0;
  double gate_us = 0;  // names, fusion, gate
  double rerank_us = 0;
};

struct RouteDecision {
  Outcome outcome = Outcome::kAbstain;
  // Best first, at most top_k (more only when the query names more tools).
  // Empty only when nothing matches at all.
  std::vector<Candidate> candidates;
  float margin = 0;
  float threshold = 0;
  std::string rule;
  std::string reason;
  RouteTimings timings;
  // Rule `several-tools`: the tools that the query's clauses want, in its
  // order. All are among the candidates, whatever top_k is.
  std::vector<int> several;
  // The registry that the candidates' tool numbers refer to; it may have been
  // replaced in the Router meanwhile.
  std::shared_ptr<const ToolIndex> index;

  const schema::ToolSchema& tool(const Candidate& candidate) const {
    return index->tool(candidate.tool);
  }
};

// Thread-safe. Queries share the encoder one at a time; the rest runs in
// parallel. The encoder, the re-ranker and the clock must outlive it.
class Router {
 public:
  // `embedder` null: BM25 only. It must be the one that the index was built
  // with (kIncompatible from Route when the fingerprints differ).
  Router(std::shared_ptr<const ToolIndex> index, llm::Embedder* embedder,
         const RouterOptions& options = {}, llm::Reranker* reranker = nullptr);

  // Swaps the registry. Running queries end on the old one.
  void SetIndex(std::shared_ptr<const ToolIndex> index) EXCLUDES(index_mutex_);
  std::shared_ptr<const ToolIndex> index() const EXCLUDES(index_mutex_);

  // An empty registry, an empty query (or only spaces) and a scope without
  // tools give kAbstain, not an error. An encoder that fails or returns
  // nonsense costs the dense ranking of this query, and the reason says so.
  Result<RouteDecision> Route(std::string_view query,
                              const RouteOptions& options = {}) const;

 private:
  // One row of scores a text.
  Result<std::vector<std::vector<float>>> DenseScores(
      const ToolIndex& index, std::span<const std::string> texts,
      RouteTimings* timings) const EXCLUDES(model_mutex_);
  // Changes the decision to several tools, where the query wants them.
  void SeeSeveralTools(std::string_view query, std::span<const int> scope,
                       const FusionInput& fusion, int top_k,
                       RouteDecision* decision) const EXCLUDES(model_mutex_);
  void Rerank(std::string_view query, const SignalInput& first, int top_k,
              RouteDecision* decision) const EXCLUDES(model_mutex_);

  mutable Mutex index_mutex_;
  std::shared_ptr<const ToolIndex> index_ GUARDED_BY(index_mutex_);
  // Held while the encoder or the re-ranker runs (their names may be read
  // without it); never with index_mutex_.
  mutable Mutex model_mutex_;
  llm::Embedder* const embedder_;
  llm::Reranker* const reranker_;
  const RouterOptions options_;
  const Clock& clock_;
};

}  // namespace nexus::route

#endif  // NEXUS_ROUTE_ROUTER_H_
