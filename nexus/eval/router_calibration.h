// RouterCalibration: the weight of words beside cosines, the gate's head, and
// the same for a cross-encoder's second look, learnt for one encoder (and one
// cross-encoder) from labelled queries.
//
// Each query is asked over pools of several sizes, half of their tools the
// right one's neighbours by BM25, and over the whole registry; once more
// without its right tools, as a near miss. Every set of queries counts the
// same, however long it is, and out of scope counts as the protocol's share of
// the traffic. Words are weighed by the registry's statistics in every pool.
#ifndef NEXUS_EVAL_ROUTER_CALIBRATION_H_
#define NEXUS_EVAL_ROUTER_CALIBRATION_H_

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/eval/query_file.h"
#include "nexus/eval/twin_file.h"
#include "nexus/llm/embedder.h"
#include "nexus/llm/reranker.h"
#include "nexus/route/gate_head.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::eval {

struct CalibrationSet {
  std::string name;
  std::vector<schema::ToolSchema> tools;
  std::vector<LabelledQuery> queries;
};

struct RouterCalibrationOptions {
  std::vector<int> pool_sizes = {10, 50, 250};  // beside the whole registry
  // Of what is routed, this share must be right.
  double precision = 0.98;
  // Of near misses and what is out of scope, at most this share is routed.
  double false_route = 0.05;
  // At most this share of right first choices may be abstained from.
  double lost = 0.02;
  TwinLabels twins;  // that count as one tool, beside equal ones
  // Second look; null: none. It reads the first `rerank_depth` of each trial.
  llm::Reranker* reranker = nullptr;
  int rerank_depth = 10;
  std::function<void(int done, int total)> progress;        // sets
  std::function<void(int done, int total)> pairs_progress;  // trials
  const std::atomic<bool>* cancel = nullptr;
};

struct WeightPoint {
  float bm25_weight = 0;
  double top1 = 0;  // mean over sets
};

// On the queries that it was learnt from, at the protocol's traffic. Of the
// second look: with what the first has routed already.
struct StageFigures {
  double top1 = 0;  // mean over sets
  double auto_share = 0;
  double auto_precision = 0;
  double false_route = 0;  // of near misses and what is out of scope
  double auroc = 0;        // chance of right trials against others
};

struct BlendPoint {
  float blend = 0;
  double top1 = 0;  // mean over sets
};

// What a threshold can have: the most that may be routed at a precision.
struct ReachPoint {
  double precision = 0;  // that was wanted
  float route_at = 0;
  StageFigures figures;  // auto_share 0: out of reach
};

// The paper's rule (gate.h) over the same trials, with the weight that words
// have where nothing is calibrated.
struct MarginFigures {
  float tau = 0;
  StageFigures figures;
};

struct PairCalibration {
  float blend = 0;
  route::GateHead head;
  StageFigures figures;
  std::vector<ReachPoint> reach;
  std::vector<BlendPoint> curve;
  int read = 0;  // trials that came to the second look
};

struct RouterCalibration {
  float bm25_weight = 0;
  route::GateHead head;
  StageFigures figures;
  std::vector<ReachPoint> reach;  // at several precisions, highest first
  MarginFigures paper_margin;     // at the paper's tau
  MarginFigures best_margin;      // at the tau that keeps what was wanted
  std::optional<PairCalibration> pairs;
  std::vector<WeightPoint> curve;
  int sets = 0;
  int queries = 0;
  int trials = 0;

  // Of all looks together.
  const StageFigures& last_figures() const {
    return pairs.has_value() ? pairs->figures : figures;
  }
  const std::vector<ReachPoint>& last_reach() const {
    return pairs.has_value() ? pairs->reach : reach;
  }
};

// kInvalidArgument: nothing to learn from, or nothing to tell it from.
// kCancelled. Errors of the encoder.
Result<RouterCalibration> CalibrateRouter(
    std::vector<CalibrationSet> sets, llm::Embedder* encoder,
    const RouterCalibrationOptions& options = {});

}  // namespace nexus::eval

#endif  // NEXUS_EVAL_ROUTER_CALIBRATION_H_
