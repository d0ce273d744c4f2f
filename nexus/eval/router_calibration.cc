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
#include "nexus/route/gate.h"
#include "nexus/route/pair_gate.h"
#include "nexus/route/router_profile.h"

namespace nexus::eval {
namespace {

constexpr int kWeightSteps = 20;  // from 0 to 1
// Beside the one that is wanted: what a user might settle for.
constexpr std::array<double, 5> kReachPrecisions = {0.98, 0.95, 0.90, 0.85,
                                                    0.80};
constexpr double kRidge = 1e-3;  // all rows together weigh 1

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

// What a stage's head is asked about, one row a trial that reaches it.
struct StageRows {
  std::vector<size_t> trials;
  std::vector<int> best;  // tools
  std::vector<route::GateSignals> signals;
};

// What an earlier stage has decided, [trial].
struct Routed {
  std::vector<uint8_t> yes;
  std::vector<int> best;
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
  // Right, and the only tool that was needed: it may be routed.
  bool MayRoute(const Trial& trial, int tool) const;
  double MeanTop1(std::span<const int> best) const;  // [trial]
  void FitWeight(RouterCalibration* fit) const;
  // The second look at what the first stage neither routed nor turned away.
  Status FitPairs(const Routed& first, RouterCalibration* fit) const;
  route::GateHead FitHead(const StageRows& rows, const Routed& earlier,
                          StageFigures* figures,
                          std::vector<ReachPoint>* reach) const;
  // Head and figures for options_.precision, and what others would give.
  void ChooseThresholds(std::span<const double> chances, const StageRows& rows,
                        const Routed& earlier, route::GateHead* head,
                        StageFigures* figures,
                        std::vector<ReachPoint>* reach) const;
  // The lowest threshold that keeps the precision; or, with `fixed`, what that
  // one gives.
  float RouteAt(std::span<const double> chances, const StageRows& rows,
                const Routed& earlier, double precision,
                std::optional<double> fixed, StageFigures* figures) const;
  void FitMargin(RouterCalibration* fit) const;
  Status CheckBothClasses() const;
  route::SignalInput FirstSignals(const Trial& trial,
                                  const Choice& choice) const;
  void WeighTrials();

  llm::Embedder& encoder_;
  const RouterCalibrationOptions& options_;
  std::vector<SetScores> sets_;
  std::vector<Trial> trials_;
  // What each trial counts: sets alike, out of scope by the traffic's share.
  std::vector<double> weights_;
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
      scores.index, route::ToolIndex::Build(std::move(set.tools), &encoder_,
                                            {.cancel = options_.cancel}));
  scores.labels =
      ResolveGold(*scores.index, std::move(set.queries), options_.twins);
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

bool Calibrator::MayRoute(const Trial& trial, int tool) const {
  return IsRight(trial, tool) &&
         !sets_[trial.set].labels.gold[trial.query].several_needed();
}

double Calibrator::MeanTop1(std::span<const int> best) const {
  std::vector<double> right(sets_.size(), 0), asked(sets_.size(), 0);
  for (size_t t = 0; t < trials_.size(); ++t) {
    if (!trials_[t].in_scope) continue;
    asked[trials_[t].set] += 1;
    right[trials_[t].set] += IsRight(trials_[t], best[t]) ? 1 : 0;
  }
  double top1 = 0;
  int counted = 0;
  for (size_t s = 0; s < sets_.size(); ++s) {
    if (asked[s] <= 0) continue;
    top1 += right[s] / asked[s];
    ++counted;
  }
  return top1 / std::max(counted, 1);
}

// The middle of a hill rather than its luckiest point.
template <typename Point>
const Point& MiddleOfTheHill(const std::vector<Point>& curve) {
  size_t found = 0;
  double best = -1;
  for (size_t i = 0; i < curve.size(); ++i) {
    const size_t before = i == 0 ? 0 : i - 1;
    const size_t after = std::min(i + 1, curve.size() - 1);
    const double smooth =
        curve[before].top1 + curve[i].top1 + curve[after].top1;
    if (smooth > best) {
      best = smooth;
      found = i;
    }
  }
  return curve[found];
}

void Calibrator::FitWeight(RouterCalibration* fit) const {
  for (int step = 0; step <= kWeightSteps; ++step) {
    const float weight =
        static_cast<float>(step) / static_cast<float>(kWeightSteps);
    std::vector<int> best;
    for (const Trial& trial : trials_) {
      best.push_back(Choose(trial, weight).best);
    }
    fit->curve.push_back({weight, MeanTop1(best)});
  }
  const WeightPoint& taken = MiddleOfTheHill(fit->curve);
  fit->bm25_weight = taken.bm25_weight;
  fit->figures.top1 = taken.top1;
}

route::SignalInput Calibrator::FirstSignals(const Trial& trial,
                                            const Choice& choice) const {
  const SetScores& set = sets_[trial.set];
  return {.dense = set.dense[trial.query],
          .bm25 = set.bm25[trial.query],
          .blended = choice.blended,
          .scope = trial.scope,
          .twin_class = set.index->twin_class(),
          .best = choice.best};
}

void Calibrator::WeighTrials() {
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
  weights_.clear();
  for (const Trial& trial : trials_) {
    const size_t side = trial.in_scope ? 1 : 0;
    const double share =
        trial.in_scope ? 1 - kOutOfScopeTraffic : kOutOfScopeTraffic;
    weights_.push_back(share / sets_with[side] / counts[trial.set][side]);
  }
}

std::vector<size_t> FromTheSurest(std::span<const double> chances) {
  std::vector<size_t> order(chances.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return chances[a] > chances[b]; });
  return order;
}

float Calibrator::RouteAt(std::span<const double> chances,
                          const StageRows& rows, const Routed& earlier,
                          double precision, std::optional<double> fixed,
                          StageFigures* figures) const {
  const std::vector<size_t> order = FromTheSurest(chances);
  // Nothing is routed unless the first so many keep the precision too: one
  // lucky trial is no threshold.
  const size_t fewest = std::min<size_t>(50, order.size());
  double all_in_scope = 0, all_others = 0;
  double routed = 0, right = 0, in_scope = 0, astray = 0;
  const auto route = [&](size_t t, int best) {
    routed += weights_[t];
    right += MayRoute(trials_[t], best) ? weights_[t] : 0;
    (trials_[t].in_scope ? in_scope : astray) += weights_[t];
  };
  for (size_t t = 0; t < trials_.size(); ++t) {
    (trials_[t].in_scope ? all_in_scope : all_others) += weights_[t];
    if (earlier.yes[t] != 0) route(t, earlier.best[t]);
  }
  const auto note = [&] {
    figures->auto_share = all_in_scope > 0 ? in_scope / all_in_scope : 0;
    figures->auto_precision = routed > 0 ? right / routed : 0;
    figures->false_route = all_others > 0 ? astray / all_others : 0;
  };
  note();
  float route_at = 1;
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t t = rows.trials[order[i]];
    const int best = rows.best[order[i]];
    if (fixed.has_value() && chances[order[i]] < *fixed) break;
    route(t, best);
    if (fixed.has_value()) {
      note();
      continue;
    }
    // Lower than a right trial there is nothing to gain.
    if (!MayRoute(trials_[t], best) || i + 1 < fewest ||
        right < precision * routed ||
        astray > options_.false_route * all_others) {
      continue;
    }
    route_at = static_cast<float>(chances[order[i]]);
    note();
  }
  return fixed.has_value() ? static_cast<float>(*fixed) : route_at;
}

void Calibrator::ChooseThresholds(std::span<const double> chances,
                                  const StageRows& rows, const Routed& earlier,
                                  route::GateHead* head, StageFigures* figures,
                                  std::vector<ReachPoint>* reach) const {
  std::vector<double> wanted(kReachPrecisions.begin(), kReachPrecisions.end());
  if (std::find(wanted.begin(), wanted.end(), options_.precision) ==
      wanted.end()) {
    wanted.push_back(options_.precision);
  }
  std::sort(wanted.rbegin(), wanted.rend());
  const StageFigures of_all = *figures;  // top-1 and AUROC
  for (const double precision : wanted) {
    ReachPoint& point = reach->emplace_back();
    point.precision = precision;
    point.figures = of_all;
    point.route_at =
        RouteAt(chances, rows, earlier, precision, {}, &point.figures);
    if (precision != options_.precision) continue;
    head->route_at = point.route_at;
    *figures = point.figures;
  }
  double all_right = 0;
  for (size_t i = 0; i < rows.trials.size(); ++i) {
    if (MayRoute(trials_[rows.trials[i]], rows.best[i])) {
      all_right += weights_[rows.trials[i]];
    }
  }
  const std::vector<size_t> order = FromTheSurest(chances);
  double lost = 0;
  head->abstain_below = 0;
  for (size_t i = order.size(); i-- > 0;) {
    const size_t t = rows.trials[order[i]];
    if (MayRoute(trials_[t], rows.best[order[i]])) lost += weights_[t];
    if (lost > options_.lost * all_right) break;
    head->abstain_below =
        std::min(static_cast<float>(chances[order[i]]), head->route_at);
  }
}

void Calibrator::FitMargin(RouterCalibration* fit) const {
  const route::GateOptions paper;
  route::GateOptions any_lead;
  any_lead.tau = 0;
  StageRows rows;
  std::vector<double> margins, right, wrong;
  std::vector<int> best;  // [trial]
  for (size_t t = 0; t < trials_.size(); ++t) {
    const Choice choice = Choose(trials_[t], route::kUncalibratedBm25Weight);
    best.push_back(choice.best);
    const SetScores& set = sets_[trials_[t].set];
    const route::Candidate first = {.tool = choice.best};
    const route::GateDecision decision =
        route::Decide({.candidates = {&first, 1},
                       .dense = set.dense[trials_[t].query],
                       .bm25 = set.bm25[trials_[t].query],
                       .scope = trials_[t].scope,
                       .twin_class = set.index->twin_class()},
                      any_lead);
    if (decision.outcome != route::Outcome::kRoute) continue;
    rows.trials.push_back(t);
    rows.best.push_back(choice.best);
    // A tool without a rival is routed whatever tau is.
    margins.push_back(decision.rule == "only-tool"
                          ? 2.0
                          : static_cast<double>(decision.margin));
    (MayRoute(trials_[t], choice.best) ? right : wrong)
        .push_back(margins.back());
  }
  const Routed none = {.yes = std::vector<uint8_t>(trials_.size(), 0),
                       .best = best};
  StageFigures figures;
  figures.top1 = MeanTop1(best);
  figures.auroc = AreaUnderRoc(right, wrong);
  fit->paper_margin.figures = fit->best_margin.figures = figures;
  fit->paper_margin.tau =
      RouteAt(margins, rows, none, 0, static_cast<double>(paper.tau),
              &fit->paper_margin.figures);
  fit->best_margin.tau = RouteAt(margins, rows, none, options_.precision, {},
                                 &fit->best_margin.figures);
}

route::GateHead Calibrator::FitHead(const StageRows& rows,
                                    const Routed& earlier,
                                    StageFigures* figures,
                                    std::vector<ReachPoint>* reach) const {
  LogisticData data;
  data.columns = route::kGateSignalCount;
  for (size_t i = 0; i < rows.trials.size(); ++i) {
    const size_t t = rows.trials[i];
    data.weight.push_back(weights_[t]);
    data.rows.insert(data.rows.end(), rows.signals[i].begin(),
                     rows.signals[i].end());
    data.yes.push_back(MayRoute(trials_[t], rows.best[i]) ? 1 : 0);
  }
  const LogisticFit found = FitLogistic(data, kRidge);
  route::GateHead head;
  for (size_t i = 0; i < route::kGateSignalCount; ++i) {
    head.weights[i] = static_cast<float>(found.weights[i]);
  }
  head.bias = static_cast<float>(found.bias);
  std::vector<double> chances, yes, no;
  for (size_t i = 0; i < rows.trials.size(); ++i) {
    chances.push_back(static_cast<double>(head.Chance(rows.signals[i])));
    (data.yes[i] != 0 ? yes : no).push_back(chances.back());
  }
  figures->auroc = AreaUnderRoc(yes, no);
  ChooseThresholds(chances, rows, earlier, &head, figures, reach);
  return head;
}

Status Calibrator::FitPairs(const Routed& first, RouterCalibration* fit) const {
  // One trial that comes to the second look, and what was read.
  struct SecondLook {
    size_t trial = 0;
    Choice choice;
    std::vector<int> tools;
    std::vector<float> scores;
  };
  std::vector<SecondLook> looks;
  for (size_t t = 0; t < trials_.size(); ++t) {
    if (options_.cancel != nullptr && options_.cancel->load()) {
      return CancelledError("interrupted");
    }
    if (options_.pairs_progress) {
      options_.pairs_progress(static_cast<int>(t),
                              static_cast<int>(trials_.size()));
    }
    if (first.yes[t] != 0) continue;
    const Trial& trial = trials_[t];
    const SetScores& set = sets_[trial.set];
    SecondLook look;
    look.trial = t;
    look.choice = Choose(trial, fit->bm25_weight);
    look.tools = route::RankTools(look.choice.blended, trial.scope,
                                  {.depth = options_.rerank_depth});
    std::vector<std::string> texts;
    for (const int tool : look.tools) {
      texts.push_back(set.index->search_text(tool));
    }
    NEXUS_ASSIGN_OR_RETURN(
        look.scores,
        options_.reranker->Score(set.labels.queries[trial.query].text, texts));
    looks.push_back(std::move(look));
  }
  const auto input = [&](const SecondLook& look) {
    return route::PairInput{
        .tools = look.tools,
        .scores = look.scores,
        .first = FirstSignals(trials_[look.trial], look.choice)};
  };
  PairCalibration& pairs = fit->pairs.emplace();
  pairs.read = static_cast<int>(looks.size());
  for (const float blend : {0.0F, 1.0F, 2.0F, 4.0F, 8.0F, 16.0F, 32.0F}) {
    std::vector<int> best = first.best;
    for (const SecondLook& look : looks) {
      best[look.trial] =
          look.tools[route::OrderByPairs(input(look), blend).front()];
    }
    pairs.curve.push_back({blend, MeanTop1(best)});
  }
  const BlendPoint& taken = MiddleOfTheHill(pairs.curve);
  pairs.blend = taken.blend;
  pairs.figures.top1 = taken.top1;
  StageRows rows;
  for (const SecondLook& look : looks) {
    const size_t best = route::OrderByPairs(input(look), pairs.blend).front();
    rows.trials.push_back(look.trial);
    rows.best.push_back(look.tools[best]);
    rows.signals.push_back(route::ReadPairSignals(input(look), best));
  }
  pairs.head = FitHead(rows, first, &pairs.figures, &pairs.reach);
  return Status::Ok();
}

Status Calibrator::CheckBothClasses() const {
  const auto in_scope =
      std::count_if(trials_.begin(), trials_.end(),
                    [](const Trial& trial) { return trial.in_scope; });
  if (in_scope == 0) {
    return InvalidArgumentError(
        trials_.empty()
            ? "no query has a label that its registry knows, or all name "
              "their tool: there is nothing to learn from"
            : "every query is out of scope, or names its tool: a gate is "
              "learnt from right choices too");
  }
  if (static_cast<size_t>(in_scope) == trials_.size()) {
    return InvalidArgumentError(
        "nothing is out of scope: no query has an empty \"gold\", and none "
        "could be asked without its right tool (a registry of one tool, or "
        "queries that all need several); a gate is learnt from both kinds");
  }
  return Status::Ok();
}

Result<RouterCalibration> Calibrator::Fit() {
  RouterCalibration fit;
  fit.sets = static_cast<int>(sets_.size());
  for (const SetScores& set : sets_) {
    fit.queries += static_cast<int>(set.labels.queries.size());
  }
  fit.trials = static_cast<int>(trials_.size());
  NEXUS_RETURN_IF_ERROR(CheckBothClasses());
  WeighTrials();
  FitWeight(&fit);
  StageRows rows;
  Routed none = {.yes = std::vector<uint8_t>(trials_.size(), 0), .best = {}};
  for (size_t t = 0; t < trials_.size(); ++t) {
    const Choice choice = Choose(trials_[t], fit.bm25_weight);
    rows.trials.push_back(t);
    rows.best.push_back(choice.best);
    rows.signals.push_back(
        route::ReadSignals(FirstSignals(trials_[t], choice)));
  }
  none.best = rows.best;
  bool any_right = false;
  for (size_t t = 0; t < trials_.size(); ++t) {
    any_right = any_right || MayRoute(trials_[t], none.best[t]);
  }
  if (!any_right) {
    return InvalidArgumentError(
        "the first choice is right for none of the queries: there is no "
        "chance to learn; are encoder, registry and labels of one kind?");
  }
  fit.head = FitHead(rows, none, &fit.figures, &fit.reach);
  FitMargin(&fit);
  if (options_.reranker == nullptr) return fit;
  fit.head.abstain_below = 0;  // the second look knows better
  Routed first = none;
  for (size_t t = 0; t < trials_.size(); ++t) {
    first.yes[t] = fit.head.Chance(rows.signals[t]) >= fit.head.route_at;
  }
  NEXUS_RETURN_IF_ERROR(FitPairs(first, &fit));
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
