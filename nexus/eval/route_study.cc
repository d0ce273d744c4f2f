#include "nexus/eval/route_study.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "nexus/eval/tool_effect.h"
#include "nexus/route/router_profile.h"

namespace nexus::eval {
namespace {

// A pool with everything that is built of it. The whole registry's is kept.
struct BuiltPool {
  std::vector<int> tools;  // of the registry; position = number in `index`
  std::shared_ptr<const route::ToolIndex> index;
  std::shared_ptr<const route::Bm25Index> plain_bm25;
};

std::shared_ptr<const route::Bm25Index> PlainBm25(
    const route::ToolIndex& index) {
  std::vector<std::string> texts;
  const int count = static_cast<int>(index.tools().size());
  for (int i = 0; i < count; ++i) texts.push_back(index.search_text(i));
  return std::make_shared<const route::Bm25Index>(texts, kPlainBm25);
}

class Study {
 public:
  Study(const RouteStudyModels& models, const RouteStudyOptions& options)
      : models_(models), options_(options) {}

  Result<RouteStudy> Run(std::vector<schema::ToolSchema> tools,
                         std::vector<LabelledQuery> queries);

 private:
  Status Prepare(std::vector<schema::ToolSchema> tools,
                 std::vector<LabelledQuery> queries);
  NearestTools MakeNearest();
  Result<BuiltPool> Build(std::vector<int> tools);
  Status RunQuery(size_t query);
  // One pool of the query, and its near-miss if asked for.
  Status RunPools(size_t query, uint64_t seed, StudyPoint* point);
  Result<RouteTrial> Decide(size_t query, const BuiltPool& pool) const;
  Status ReadSignals(const std::string& text, const BuiltPool& pool,
                     RouteTrial* trial) const;
  Status MeasureLatency(size_t query, const BuiltPool& pool,
                        StudyPoint* point) const;

  const RouteStudyModels models_;
  const RouteStudyOptions& options_;
  RouteStudy study_;
  std::shared_ptr<const route::ToolIndex> neighbour_index_;
  std::optional<BaselineRankings> baselines_;
  std::optional<PoolMaker> pools_;
  BuiltPool whole_;
  std::vector<int> tokens_;          // [tool]
  std::vector<ToolEffect> effects_;  // [tool]
  BaselineRankings::Scores scores_;  // of the running query
};

Status Study::Prepare(std::vector<schema::ToolSchema> tools,
                      std::vector<LabelledQuery> queries) {
  if (tools.empty()) {
    return InvalidArgumentError("the registry has no tools to choose from");
  }
  if (queries.empty()) {
    return InvalidArgumentError(
        "no queries are left after the filters; see --split, --set, --part");
  }
  const size_t registry_size = tools.size();
  std::set<std::string> ids;
  for (const schema::ToolSchema& tool : tools) ids.insert(ToolId(tool));
  if (ids.size() < registry_size) {
    study_.warnings.push_back(
        std::to_string(registry_size - ids.size()) +
        " tools share their name with another; any of a name counts as right");
  }
  if (options_.count_tokens) {
    for (const schema::ToolSchema& tool : tools) {
      NEXUS_ASSIGN_OR_RETURN(const int count, options_.count_tokens(tool));
      tokens_.push_back(count);
    }
  }
  for (const schema::ToolSchema& tool : tools) {
    effects_.push_back(EffectOf(tool));
  }
  route::ToolIndexOptions index_options;
  index_options.progress = options_.embedding_progress;
  index_options.cancel = options_.cancel;
  NEXUS_ASSIGN_OR_RETURN(
      study_.registry, route::ToolIndex::Build(std::move(tools),
                                               models_.encoder, index_options));
  for (const std::string& warning : study_.registry->warnings()) {
    study_.warnings.push_back(warning);
  }
  study_.labels =
      ResolveGold(*study_.registry, std::move(queries), options_.twins);
  if (study_.labels.queries.empty()) {
    return InvalidArgumentError(
        "no query has a label that the registry knows; the first: " +
        study_.labels.unknown.front());
  }
  llm::Embedder* baseline =
      models_.baseline != nullptr ? models_.baseline : models_.encoder;
  NEXUS_ASSIGN_OR_RETURN(baselines_,
                         BaselineRankings::Make(*study_.registry, baseline));
  if (models_.neighbour != nullptr && options_.pool == PoolKind::kNeighbour) {
    NEXUS_ASSIGN_OR_RETURN(
        neighbour_index_,
        route::ToolIndex::Build(study_.registry->tools(), models_.neighbour,
                                index_options));
  }
  pools_.emplace(*study_.registry, MakeNearest());
  whole_.index = study_.registry;
  whole_.plain_bm25 = PlainBm25(*study_.registry);
  for (size_t i = 0; i < registry_size; ++i) {
    whole_.tools.push_back(static_cast<int>(i));
  }
  return Status::Ok();
}

NearestTools Study::MakeNearest() {
  if (neighbour_index_ == nullptr) return NearestByBm25(*study_.registry);
  return NearestByVectors(*neighbour_index_, models_.neighbour);
}

Result<BuiltPool> Study::Build(std::vector<int> tools) {
  if (tools.size() == whole_.tools.size()) return whole_;
  BuiltPool pool;
  std::vector<schema::ToolSchema> schemas;
  schemas.reserve(tools.size());
  for (const int tool : tools) schemas.push_back(study_.registry->tool(tool));
  NEXUS_ASSIGN_OR_RETURN(
      pool.index, route::ToolIndex::Build(std::move(schemas), models_.encoder));
  pool.plain_bm25 = PlainBm25(*pool.index);
  pool.tools = std::move(tools);
  return pool;
}

Status Study::ReadSignals(const std::string& text, const BuiltPool& pool,
                          RouteTrial* trial) const {
  std::vector<float> scores;
  if (models_.encoder != nullptr) {
    NEXUS_ASSIGN_OR_RETURN(
        const auto vectors,
        models_.encoder->Embed({&text, 1}, llm::TextRole::kQuery));
    auto dense = pool.index->slb()->ScoreAll(vectors.front());
    if (dense.ok()) scores = std::move(dense).value();
  }
  if (scores.empty()) scores = pool.index->bm25().Score(text);
  if (scores.empty()) return Status::Ok();
  const auto best = std::max_element(scores.begin(), scores.end());
  const std::span<const int> twins = pool.index->twin_class();
  const int own = twins[static_cast<size_t>(best - scores.begin())];
  float rival = 0;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (twins[i] != own) rival = std::max(rival, scores[i]);
  }
  trial->top_score = *best;
  trial->lead = *best - rival;
  return Status::Ok();
}

Result<RouteTrial> Study::Decide(size_t query, const BuiltPool& pool) const {
  const std::string& text = study_.labels.queries[query].text;
  const Gold& gold = study_.labels.gold[query];
  RouteTrial trial;
  trial.query = static_cast<int>(query);
  trial.pool_tools = static_cast<int>(pool.tools.size());
  if (!gold.in_scope()) trial.kind = QueryKind::kOutOfScope;

  const route::Router router(pool.index, models_.encoder, options_.router,
                             models_.reranker);
  // Deep enough for recall at 20.
  NEXUS_ASSIGN_OR_RETURN(const route::RouteDecision decision,
                         router.Route(text, {.top_k = 20}));
  trial.outcome = decision.outcome;
  trial.rule = decision.rule;
  trial.margin = decision.margin;
  trial.reranked = decision.outcome == route::Outcome::kRerank ||
                   decision.rule.starts_with("pair-");
  NEXUS_RETURN_IF_ERROR(ReadSignals(text, pool, &trial));
  route::RouterOptions paper = options_.router;
  paper.gate = {};
  paper.bm25_weight = route::kUncalibratedBm25Weight;
  const route::Router by_margin(pool.index, models_.encoder, paper);
  NEXUS_ASSIGN_OR_RETURN(const route::RouteDecision margin,
                         by_margin.Route(text, {.top_k = 1}));
  trial.paper_outcome = margin.outcome;
  if (!margin.candidates.empty()) {
    trial.paper_chosen =
        pool.tools[static_cast<size_t>(margin.candidates.front().tool)];
  }

  BaselineRankings::Orders orders =
      baselines_->Rank(text, scores_, pool.tools, *pool.plain_bm25);
  std::vector<int>& nexus = orders[static_cast<size_t>(Ranking::kNexus)];
  for (const route::Candidate& candidate : decision.candidates) {
    nexus.push_back(pool.tools[static_cast<size_t>(candidate.tool)]);
  }
  if (!nexus.empty()) trial.chosen = nexus.front();
  trial.first.assign(nexus.begin(),
                     nexus.begin() + static_cast<std::ptrdiff_t>(std::min(
                                         nexus.size(), kKeptCandidates)));
  if (gold.in_scope()) {
    for (size_t r = 0; r < kRankingCount; ++r) {
      trial.hits[r] = CountHits(gold, orders[r]);
    }
    trial.read_wanted =
        std::all_of(gold.right.begin(), gold.right.end(), [&](int tool) {
          return effects_[static_cast<size_t>(tool)] == ToolEffect::kReads;
        });
    trial.write_chosen =
        trial.read_wanted && trial.chosen >= 0 &&
        effects_[static_cast<size_t>(trial.chosen)] == ToolEffect::kWrites;
  }
  if (!tokens_.empty()) {
    const auto tokens_of = [&](int tool) {
      return tokens_[static_cast<size_t>(tool)];
    };
    for (const int tool : pool.tools) trial.tokens_all += tokens_of(tool);
    const std::vector<int>& words = orders[static_cast<size_t>(Ranking::kBm25)];
    for (size_t i = 0; i < std::min<size_t>(words.size(), 5); ++i) {
      trial.tokens_bm25_top5 += tokens_of(words[i]);
    }
    if (trial.chosen >= 0) trial.tokens_chosen = tokens_of(trial.chosen);
  }
  return trial;
}

Status Study::MeasureLatency(size_t query, const BuiltPool& pool,
                             StudyPoint* point) const {
  if (static_cast<int>(point->timings.size()) >= options_.latency_queries) {
    return Status::Ok();
  }
  // Without a decoy for the encoder, BM25's own way is measured.
  llm::Embedder* encoder =
      models_.encoder != nullptr ? models_.uncached : nullptr;
  if (models_.encoder != nullptr && encoder == nullptr) return Status::Ok();
  const route::Router router(pool.index, encoder, options_.router,
                             models_.uncached_reranker);
  NEXUS_ASSIGN_OR_RETURN(const route::RouteDecision decision,
                         router.Route(study_.labels.queries[query].text));
  point->timings.push_back(decision.timings);
  return Status::Ok();
}

Status Study::RunPools(size_t query, uint64_t seed, StudyPoint* point) {
  const LabelledQuery& labelled = study_.labels.queries[query];
  const Gold& gold = study_.labels.gold[query];
  PoolRequest request;
  request.kind = options_.pool;
  request.size = point->size;
  request.seed = seed;
  NEXUS_ASSIGN_OR_RETURN(BuiltPool pool,
                         Build(pools_->Make(labelled, gold, request)));
  NEXUS_ASSIGN_OR_RETURN(RouteTrial trial, Decide(query, pool));
  trial.seed = seed;
  point->trials.push_back(std::move(trial));
  if (seed == 1) NEXUS_RETURN_IF_ERROR(MeasureLatency(query, pool, point));
  // Where several tools are needed, a part of them is no near-miss.
  if (!options_.near_miss || !gold.in_scope() || gold.several_needed()) {
    return Status::Ok();
  }
  request.without_gold = true;
  NEXUS_ASSIGN_OR_RETURN(pool, Build(pools_->Make(labelled, gold, request)));
  NEXUS_ASSIGN_OR_RETURN(trial, Decide(query, pool));
  trial.seed = seed;
  trial.kind = QueryKind::kNearMiss;
  point->trials.push_back(std::move(trial));
  return Status::Ok();
}

Status Study::RunQuery(size_t query) {
  NEXUS_ASSIGN_OR_RETURN(scores_,
                         baselines_->Score(study_.labels.queries[query].text));
  const Gold& gold = study_.labels.gold[query];
  for (StudyPoint& point : study_.points) {
    // Where nothing is drawn, another seed would say the same again.
    const bool drawn =
        options_.pool != PoolKind::kAll && gold.within.empty() &&
        point.size < static_cast<int>(study_.registry->tools().size());
    const int seeds = drawn ? std::max(options_.seeds, 1) : 1;
    for (int seed = 1; seed <= seeds; ++seed) {
      if (options_.cancel != nullptr && options_.cancel->load()) {
        return CancelledError("interrupted");
      }
      NEXUS_RETURN_IF_ERROR(
          RunPools(query, static_cast<uint64_t>(seed), &point));
    }
  }
  return Status::Ok();
}

Result<RouteStudy> Study::Run(std::vector<schema::ToolSchema> tools,
                              std::vector<LabelledQuery> queries) {
  NEXUS_RETURN_IF_ERROR(Prepare(std::move(tools), std::move(queries)));
  study_.pool = options_.pool;
  study_.seeds = options_.pool == PoolKind::kAll ? 1 : options_.seeds;
  study_.has_encoder = models_.encoder != nullptr;
  study_.has_reranker = models_.reranker != nullptr;
  study_.has_tokens = !tokens_.empty();
  const int registry_size = static_cast<int>(study_.registry->tools().size());
  std::vector<int> sizes = options_.sizes;
  if (options_.pool == PoolKind::kAll || sizes.empty()) {
    sizes = {registry_size};
  }
  for (const int size : sizes) {
    // Beyond the registry every size is the same pool.
    if (size > registry_size) {
      study_.warnings.push_back("pools of " + std::to_string(size) +
                                " tools: the registry has " +
                                std::to_string(registry_size));
    }
    const int held = std::min(size, registry_size);
    if (study_.points.empty() || study_.points.back().size < held) {
      study_.points.emplace_back().size = held;
    }
  }
  const size_t count = study_.labels.queries.size();
  for (size_t query = 0; query < count; ++query) {
    NEXUS_RETURN_IF_ERROR(RunQuery(query));
    if (options_.query_progress) {
      options_.query_progress(static_cast<int>(query) + 1,
                              static_cast<int>(count));
    }
  }
  return std::move(study_);
}

}  // namespace

Result<RouteStudy> RunRouteStudy(std::vector<schema::ToolSchema> tools,
                                 std::vector<LabelledQuery> queries,
                                 const RouteStudyModels& models,
                                 const RouteStudyOptions& options) {
  return Study(models, options).Run(std::move(tools), std::move(queries));
}

}  // namespace nexus::eval
