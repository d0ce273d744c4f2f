#include "nexus/eval/router_calibration.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "nexus/eval/confidence.h"
#include "nexus/eval/gold_table.h"
#include "nexus/eval/logistic.h"
#include "nexus/eval/route_summary.h"
#include "nexus/eval/tool_pool.h"
#include "nexus/route/fusion.h"

namespace nexus::eval {
namespace {

constexpr int kWeightSteps = 20;  // from 0 to 1
constexpr double kRidge = 1e-3;   // all rows together weigh 1

// One query over one pool.
struct Trial {
  size_t set = 0;
  size_t query = 0;
  bool in_scope = false;
  std::vector<int> scope;
};

struct SetScores {
  std::shared_ptr<const route::ToolIndex> index;
  GoldTable labels;
  std::vector<std::vector<float>> dense;  // [query][tool]
  std::vector<std::vector<float>> bm25;   // [query][tool]
};

class Calibrator {
 public:
  Calibrator(llm::Embedder* encoder, const RouterCalibrationOptions& options)
      : encoder_(*encoder), options_(options) {}

  Status AddSet(CalibrationSet set);
  Result<RouterCalibration> Fit();

 private:
  Status AddQuery(size_t query, PoolMaker* pools, SetScores* set);
  struct Choice {
    std::vector<float> blended;  // [tool]
    int best = -1;               // of the trial's scope
  };
  Choice Choose(const Trial& trial, float bm25_weight) const;
  bool IsRight(const Trial& trial, int tool) const;
  void FitWeight(RouterCalibration* fit) const;
  void FitHead(RouterCalibration* fit) const;
  void ChooseThresholds(std::span<const double> chances,
                        const LogisticData& data, RouterCalibration* fit) const;
  route::GateSignals Signals(const Trial& trial, const Choice& choice) const;
  // What each trial counts: sets alike, out of scope by the traffic's share.
  std::vector<double> TrialWeights() const;

  llm::Embedder& encoder_;
  const RouterCalibrationOptions& options_;
  std::vector<SetScores> sets_;
  std::vector<Trial> trials_;
};

Status Calibrator::AddQuery(size_t query, PoolMaker* pools, SetScores* set) {
  const LabelledQuery& labelled = set->labels.queries[query];
  const Gold& gold = set->labels.gold[query];
  NEXUS_ASSIGN_OR_RETURN(
      const auto vectors,
      encoder_.Embed({&labelled.text, 1}, llm::TextRole::kQuery));
  NEXUS_ASSIGN_OR_RETURN(auto dense,
                         set->index->slb()->ScoreAll(vectors.front()));
  set->dense.push_back(std::move(dense));
  set->bm25.push_back(set->index->bm25().Score(labelled.text));

  const auto mentions = set->index->names().Find(labelled.text);
  if (std::any_of(mentions.begin(), mentions.end(),
                  [](const auto& m) { return !m.plain_word; })) {
    return Status::Ok();  // a name decides before the head is asked
  }
  const int registry_size = static_cast<int>(set->index->tools().size());
  std::vector<int> sizes;
  for (const int size : options_.pool_sizes) {
    if (size < registry_size) sizes.push_back(size);
  }
  sizes.push_back(registry_size);
  for (const int size : sizes) {
    PoolRequest request;
    request.kind = size < registry_size ? PoolKind::kNeighbour : PoolKind::kAll;
    request.size = size;
    Trial trial;
    trial.set = sets_.size();
    trial.query = query;
    trial.in_scope = gold.in_scope();
    trial.scope = pools->Make(labelled, gold, request);
    if (!trial.scope.empty()) trials_.push_back(trial);
    if (!gold.in_scope() || gold.several_needed()) continue;
    request.without_gold = true;
    trial.in_scope = false;
    trial.scope = pools->Make(labelled, gold, request);
    if (!trial.scope.empty()) trials_.push_back(std::move(trial));
  }
  return Status::Ok();
}

Status Calibrator::AddSet(CalibrationSet set) {
  SetScores scores;
  NEXUS_ASSIGN_OR_RETURN(
      scores.index, route::ToolIndex::Build(std::move(set.tools), &encoder_));
  scores.labels = ResolveGold(*scores.index, std::move(set.queries));
  PoolMaker pools(*scores.index, NearestByBm25(*scores.index));
  for (size_t q = 0; q < scores.labels.queries.size(); ++q) {
    if (options_.cancel != nullptr && options_.cancel->load()) {
      return CancelledError("interrupted");
    }
    const Status added = AddQuery(q, &pools, &scores);
    if (!added.ok()) return added.WithContext(set.name);
  }
  sets_.push_back(std::move(scores));
  return Status::Ok();
}

Calibrator::Choice Calibrator::Choose(const Trial& trial,
                                      float bm25_weight) const {
  const SetScores& set = sets_[trial.set];
  Choice choice;
  choice.blended = route::BlendScores(
      set.dense[trial.query], set.bm25[trial.query], trial.scope, bm25_weight);
  choice.best = *std::max_element(
      trial.scope.begin(), trial.scope.end(), [&](int a, int b) {
        return choice.blended[static_cast<size_t>(a)] <
               choice.blended[static_cast<size_t>(b)];
      });
  return choice;
}

bool Calibrator::IsRight(const Trial& trial, int tool) const {
  const Gold& gold = sets_[trial.set].labels.gold[trial.query];
  return trial.in_scope && gold.IsRight(tool);
}

void Calibrator::FitWeight(RouterCalibration* fit) const {
  for (int step = 0; step <= kWeightSteps; ++step) {
    const float weight =
        static_cast<float>(step) / static_cast<float>(kWeightSteps);
    std::vector<double> right(sets_.size(), 0), asked(sets_.size(), 0);
    for (const Trial& trial : trials_) {
      if (!trial.in_scope) continue;
      asked[trial.set] += 1;
      right[trial.set] += IsRight(trial, Choose(trial, weight).best) ? 1 : 0;
    }
    WeightPoint point;
    point.bm25_weight = weight;
    int counted = 0;
    for (size_t s = 0; s < sets_.size(); ++s) {
      if (asked[s] <= 0) continue;
      point.top1 += right[s] / asked[s];
      ++counted;
    }
    point.top1 /= std::max(counted, 1);
    fit->curve.push_back(point);
  }
  // The middle of a hill rather than its luckiest point.
  double best = -1;
  for (size_t i = 0; i < fit->curve.size(); ++i) {
    const size_t before = i == 0 ? 0 : i - 1;
    const size_t after = std::min(i + 1, fit->curve.size() - 1);
    const double smooth =
        fit->curve[before].top1 + fit->curve[i].top1 + fit->curve[after].top1;
    if (smooth > best) {
      best = smooth;
      fit->bm25_weight = fit->curve[i].bm25_weight;
      fit->top1 = fit->curve[i].top1;
    }
  }
}

route::GateSignals Calibrator::Signals(const Trial& trial,
                                       const Choice& choice) const {
  const SetScores& set = sets_[trial.set];
  return route::ReadSignals({.dense = set.dense[trial.query],
                             .bm25 = set.bm25[trial.query],
                             .blended = choice.blended,
                             .scope = trial.scope,
                             .twin_class = set.index->twin_class(),
                             .best = choice.best});
}

std::vector<double> Calibrator::TrialWeights() const {
  std::vector<std::array<double, 2>> counts(sets_.size(), {0, 0});
  for (const Trial& trial : trials_) {
    counts[trial.set][trial.in_scope ? 1 : 0] += 1;
  }
  std::array<double, 2> sets_with{};
  for (const auto& count : counts) {
    for (size_t side = 0; side < 2; ++side) {
      if (count[side] > 0) sets_with[side] += 1;
    }
  }
  std::vector<double> weights;
  weights.reserve(trials_.size());
  for (const Trial& trial : trials_) {
    const size_t side = trial.in_scope ? 1 : 0;
    const double share =
        trial.in_scope ? 1 - kOutOfScopeTraffic : kOutOfScopeTraffic;
    weights.push_back(share / sets_with[side] / counts[trial.set][side]);
  }
  return weights;
}

void Calibrator::ChooseThresholds(std::span<const double> chances,
                                  const LogisticData& data,
                                  RouterCalibration* fit) const {
  std::vector<size_t> order(chances.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return chances[a] > chances[b]; });
  // Nothing is routed unless the first so many keep the precision too: one
  // lucky trial is no threshold.
  const size_t fewest = std::min<size_t>(50, order.size());
  double routed = 0, right = 0, in_scope = 0, astray = 0;
  double all_in_scope = 0, all_others = 0, all_right = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const bool inside = trials_[i].in_scope;
    (inside ? all_in_scope : all_others) += data.weight[i];
    all_right += data.yes[i] != 0 ? data.weight[i] : 0;
  }
  fit->head.route_at = 1;
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t t = order[i];
    routed += data.weight[t];
    right += data.yes[t] != 0 ? data.weight[t] : 0;
    in_scope += trials_[t].in_scope ? data.weight[t] : 0;
    astray += trials_[t].in_scope ? 0 : data.weight[t];
    // Lower than a right trial there is nothing to gain.
    if (data.yes[t] == 0 || i + 1 < fewest ||
        right < options_.precision * routed ||
        astray > options_.false_route * all_others) {
      continue;
    }
    fit->head.route_at = static_cast<float>(chances[t]);
    fit->auto_share = all_in_scope > 0 ? in_scope / all_in_scope : 0;
    fit->auto_precision = right / routed;
    fit->false_route = all_others > 0 ? astray / all_others : 0;
  }
  double lost = 0;
  fit->head.abstain_below = 0;
  for (size_t i = order.size(); i-- > 0;) {
    const size_t t = order[i];
    lost += data.yes[t] != 0 ? data.weight[t] : 0;
    if (lost > options_.lost * all_right) break;
    fit->head.abstain_below =
        std::min(static_cast<float>(chances[t]), fit->head.route_at);
  }
}

void Calibrator::FitHead(RouterCalibration* fit) const {
  LogisticData data;
  data.columns = route::kGateSignalCount;
  data.weight = TrialWeights();
  std::vector<route::GateSignals> signals;
  for (const Trial& trial : trials_) {
    const Choice choice = Choose(trial, fit->bm25_weight);
    signals.push_back(Signals(trial, choice));
    data.rows.insert(data.rows.end(), signals.back().begin(),
                     signals.back().end());
    const Gold& gold = sets_[trial.set].labels.gold[trial.query];
    data.yes.push_back(
        IsRight(trial, choice.best) && !gold.several_needed() ? 1 : 0);
  }
  const LogisticFit found = FitLogistic(data, kRidge);
  for (size_t i = 0; i < route::kGateSignalCount; ++i) {
    fit->head.weights[i] = static_cast<float>(found.weights[i]);
  }
  fit->head.bias = static_cast<float>(found.bias);
  std::vector<double> chances, yes, no;
  for (size_t i = 0; i < trials_.size(); ++i) {
    chances.push_back(static_cast<double>(fit->head.Chance(signals[i])));
    (data.yes[i] != 0 ? yes : no).push_back(chances.back());
  }
  fit->auroc = AreaUnderRoc(yes, no);
  ChooseThresholds(chances, data, fit);
}

Result<RouterCalibration> Calibrator::Fit() {
  RouterCalibration fit;
  fit.sets = static_cast<int>(sets_.size());
  for (const SetScores& set : sets_) {
    fit.queries += static_cast<int>(set.labels.queries.size());
  }
  fit.trials = static_cast<int>(trials_.size());
  const bool any_in_scope =
      std::any_of(trials_.begin(), trials_.end(),
                  [](const Trial& trial) { return trial.in_scope; });
  if (!any_in_scope) {
    return InvalidArgumentError(
        "no query has a label that its registry knows, or all name their "
        "tool: there is nothing to learn from");
  }
  FitWeight(&fit);
  FitHead(&fit);
  return fit;
}

}  // namespace

Result<RouterCalibration> CalibrateRouter(
    std::vector<CalibrationSet> sets, llm::Embedder* encoder,
    const RouterCalibrationOptions& options) {
  Calibrator calibrator(encoder, options);
  const int total = static_cast<int>(sets.size());
  int done = 0;
  for (CalibrationSet& set : sets) {
    NEXUS_RETURN_IF_ERROR(calibrator.AddSet(std::move(set)));
    if (options.progress) options.progress(++done, total);
  }
  return calibrator.Fit();
}

}  // namespace nexus::eval
