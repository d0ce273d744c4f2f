#include "nexus/route/router.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "nexus/base/utf8_cut.h"
#include "nexus/route/clauses.h"

namespace nexus::route {
namespace {

// An encoder reads at most 512 tokens, and no text needs more than 32 bytes a
// token on average; tokenising the rest of a 100 KB paste would be wasted.
constexpr size_t kMaxEmbeddedBytes = 16384;

bool IsBlank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n\f\v") == std::string_view::npos;
}

std::vector<int> ScopeOf(const ToolIndex& index,
                         const std::vector<std::string>& servers) {
  std::vector<int> scope;
  const int count = static_cast<int>(index.tools().size());
  for (int i = 0; i < count; ++i) {
    if (servers.empty() || std::find(servers.begin(), servers.end(),
                                     index.tool(i).server) != servers.end()) {
      scope.push_back(i);
    }
  }
  return scope;
}

void KeepInScope(std::span<const int> scope,
                 std::vector<NameMention>* mentions) {
  for (NameMention& mention : *mentions) {
    std::erase_if(mention.tools, [&](int tool) {
      return !std::binary_search(scope.begin(), scope.end(), tool);
    });
  }
  std::erase_if(*mentions, [](const NameMention& mention) {
    return mention.tools.empty();
  });
}

// Measures laps on a clock, in microseconds.
class Lap {
 public:
  explicit Lap(const Clock& clock) : clock_(clock), last_(clock.Now()) {}
  double Us() {
    const auto now = clock_.Now();
    const double us = Milliseconds(now - last_) * 1e3;
    last_ = now;
    return us;
  }

 private:
  const Clock& clock_;
  std::chrono::nanoseconds last_;
};

RouteDecision Abstain(std::shared_ptr<const ToolIndex> index, std::string rule,
                      std::string reason) {
  RouteDecision decision;
  decision.rule = std::move(rule);
  decision.reason = std::move(reason);
  decision.index = std::move(index);
  return decision;
}

}  // namespace

Router::Router(std::shared_ptr<const ToolIndex> index, llm::Embedder* embedder,
               const RouterOptions& options, llm::Reranker* reranker)
    : index_(std::move(index)),
      embedder_(embedder),
      reranker_(reranker),
      options_(options),
      clock_(options.clock != nullptr ? *options.clock : Clock::Monotonic()) {
  NEXUS_CHECK(index_ != nullptr);
}

void Router::SetIndex(std::shared_ptr<const ToolIndex> index) {
  NEXUS_CHECK(index != nullptr);
  const MutexLock lock(index_mutex_);
  index_.swap(index);
}

std::shared_ptr<const ToolIndex> Router::index() const {
  const MutexLock lock(index_mutex_);
  return index_;
}

Result<std::vector<std::vector<float>>> Router::DenseScores(
    const ToolIndex& index, std::span<const std::string> texts,
    RouteTimings* timings) const {
  Lap lap(clock_);
  Result<std::vector<std::vector<float>>> vectors = [&] {
    const MutexLock lock(model_mutex_);
    return embedder_->Embed(texts, llm::TextRole::kQuery);
  }();
  timings->embed_us += lap.Us();
  if (!vectors.ok()) return vectors.status();
  if (vectors->size() != texts.size()) {
    return InternalError("the encoder gave " + std::to_string(vectors->size()) +
                         " vectors for " + std::to_string(texts.size()) +
                         (texts.size() == 1 ? " query" : " clauses"));
  }
  std::vector<std::vector<float>> scores;
  for (const std::vector<float>& vector : *vectors) {
    NEXUS_ASSIGN_OR_RETURN(std::vector<float> row,
                           index.slb()->ScoreAll(vector));
    scores.push_back(std::move(row));
  }
  timings->scan_us += lap.Us();
  return scores;
}

Result<RouteDecision> Router::Route(std::string_view query,
                                    const RouteOptions& options) const {
  std::shared_ptr<const ToolIndex> index = this->index();
  if (index->tools().empty()) {
    return Abstain(std::move(index), "empty-registry",
                   "there are no tools to choose from");
  }
  if (IsBlank(query)) {
    return Abstain(std::move(index), "empty-query", "the query is empty");
  }
  const std::vector<int> scope = ScopeOf(*index, options.servers);
  if (scope.empty()) {
    return Abstain(std::move(index), "empty-scope",
                   "none of the servers asked for has tools");
  }

  RouteDecision decision;
  decision.index = index;
  std::vector<float> dense;
  std::string dense_problem;
  if (index->slb() == nullptr || embedder_ == nullptr) {
    dense_problem = "no encoder is loaded";
  } else if (index->encoder_fingerprint() != embedder_->fingerprint()) {
    return IncompatibleError(
        "the index was built with encoder '" + index->encoder_fingerprint() +
        "', queries are embedded with '" + embedder_->fingerprint() +
        "'; build the index anew");
  } else {
    const std::string text(CutUtf8(query, kMaxEmbeddedBytes));
    auto scores = DenseScores(*index, {&text, 1}, &decision.timings);
    if (scores.ok()) {
      dense = std::move(scores->front());
    } else {
      dense_problem = scores.status().message();
    }
  }

  Lap lap(clock_);
  const std::vector<float> bm25 = index->bm25().Score(query);
  decision.timings.bm25_us = lap.Us();

  std::vector<NameMention> mentions = index->names().Find(query);
  KeepInScope(scope, &mentions);
  const std::vector<int> dense_order = RankTools(dense, scope);
  const std::vector<int> bm25_order =
      RankTools(bm25, scope, {.scores_are_lexical = true});
  const int depth = reranker_ != nullptr
                        ? std::max(options.top_k, options_.rerank_depth)
                        : options.top_k;
  std::vector<float> blended;
  if (!dense.empty() && options_.bm25_weight.has_value()) {
    blended = BlendScores(dense, bm25, scope, *options_.bm25_weight);
  }
  const FusionInput fusion = {.dense = dense,
                              .bm25 = bm25,
                              .blended = blended,
                              .dense_order = dense_order,
                              .bm25_order = bm25_order,
                              .mentions = mentions};
  decision.candidates = Fuse(fusion, depth);
  const auto exact_mentions = std::count_if(
      mentions.begin(), mentions.end(),
      [](const NameMention& mention) { return !mention.plain_word; });
  GateDecision gate =
      Decide({.candidates = decision.candidates,
              .dense = dense,
              .bm25 = bm25,
              .blended = blended,
              .scope = scope,
              .twin_class = index->twin_class(),
              .exact_mentions = static_cast<int>(exact_mentions)},
             options_.gate);
  decision.outcome = gate.outcome;
  decision.margin = gate.margin;
  decision.threshold = gate.threshold;
  decision.rule = std::move(gate.rule);
  decision.reason = std::move(gate.reason);
  if (!dense_problem.empty()) {
    decision.reason += "; by words only: " + dense_problem;
  }
  decision.timings.gate_us = lap.Us();

  if (!dense.empty() && exact_mentions == 0) {
    SeeSeveralTools(query, scope, fusion, options.top_k, &decision);
    // Its parts are in the decision's timings.
    lap.Us();
    if (!decision.several.empty()) return decision;
  }
  if (decision.outcome == Outcome::kRerank && exact_mentions == 0) {
    Rerank(query,
           {.dense = dense,
            .bm25 = bm25,
            .blended = blended,
            .scope = scope,
            .twin_class = index->twin_class()},
           options.top_k, &decision);
    decision.timings.rerank_us = lap.Us();
  } else if (reranker_ != nullptr && exact_mentions == 0) {
    const size_t kept = static_cast<size_t>(std::max(options.top_k, 1));
    if (decision.candidates.size() > kept) decision.candidates.resize(kept);
  }
  return decision;
}

void Router::SeeSeveralTools(std::string_view query, std::span<const int> scope,
                             const FusionInput& fusion, int top_k,
                             RouteDecision* decision) const {
  const std::vector<std::string> clauses = Clauses(query);
  const std::vector<size_t> places = PossibleWishes(clauses, options_.several);
  if (places.size() < 2) return;
  std::vector<std::string> texts;
  for (const size_t place : places) texts.push_back(clauses[place]);
  const ToolIndex& index = *decision->index;
  const auto scores = DenseScores(index, texts, &decision->timings);
  if (!scores.ok()) {
    decision->reason +=
        "; not looked at clause by clause: " + scores.status().message();
    return;
  }
  std::vector<Wish> wishes;
  for (size_t i = 0; i < places.size(); ++i) {
    wishes.push_back(WishOf(places[i], (*scores)[i], scope, index.twin_class(),
                            options_.several));
  }
  wishes = SeveralWishes(wishes, index.twin_class());
  if (wishes.empty()) return;

  // The best of the whole query stays first, then come the wishes, then others.
  std::vector<Candidate> all = Fuse(fusion, static_cast<int>(scope.size()));
  auto place = all.begin() + (all.empty() ? 0 : 1);
  decision->outcome = Outcome::kRerank;
  decision->rule = "several-tools";
  decision->margin = 0;
  decision->threshold = options_.several.min_cosine;
  decision->reason = "it asks for several tools:";
  for (const Wish& wish : wishes) {
    decision->several.push_back(wish.tool);
    decision->reason += (decision->several.size() > 1 ? ", " : " ") +
                        index.tool(wish.tool).name + " (cosine " +
                        FormatSignal(wish.cosine) + ") for '" +
                        std::string(CutUtf8(clauses[wish.clause], 60)) + "'";
    const auto found =
        std::find_if(all.begin(), all.end(),
                     [&](const Candidate& c) { return c.tool == wish.tool; });
    if (found == all.end()) {
      const auto tool = static_cast<size_t>(wish.tool);
      place = all.insert(place, {.tool = wish.tool,
                                 .dense = fusion.dense[tool],
                                 .bm25 = fusion.bm25[tool]}) +
              1;
    } else if (found >= place) {
      std::rotate(place, found, found + 1);
      ++place;
    }
  }
  const auto kept = std::max<size_t>(static_cast<size_t>(std::max(top_k, 1)),
                                     static_cast<size_t>(place - all.begin()));
  if (all.size() > kept) all.resize(kept);
  decision->candidates = std::move(all);
}

void Router::Rerank(std::string_view query, const SignalInput& first, int top_k,
                    RouteDecision* decision) const {
  if (reranker_ == nullptr) {
    decision->reason += "; no re-ranker is set, so the fused order stands";
    return;
  }
  std::vector<Candidate>& candidates = decision->candidates;
  const size_t kept = static_cast<size_t>(std::max(top_k, 1));
  std::vector<std::string> documents;
  for (const Candidate& c : candidates) {
    documents.push_back(decision->index->search_text(c.tool));
  }
  Result<std::vector<float>> scores = [&] {
    const MutexLock lock(model_mutex_);
    return reranker_->Score(query, documents);
  }();
  std::string problem;
  if (!scores.ok()) {
    problem = scores.status().message();
  } else if (scores->size() != documents.size()) {
    problem = std::to_string(scores->size()) + " scores for " +
              std::to_string(documents.size()) + " tools";
  } else if (!std::all_of(scores->begin(), scores->end(),
                          [](float x) { return std::isfinite(x); })) {
    problem = "a score that isn't finite";
  }
  if (!problem.empty()) {
    decision->reason += "; the fused order stands, since re-ranker '" +
                        reranker_->name() + "' gave " + problem;
    if (candidates.size() > kept) candidates.resize(kept);
    return;
  }

  std::vector<int> tools;
  for (size_t i = 0; i < candidates.size(); ++i) {
    candidates[i].pair = (*scores)[i];
    tools.push_back(candidates[i].tool);
  }
  const PairInput pairs = {.tools = tools, .scores = *scores, .first = first};
  const std::vector<size_t> order = OrderByPairs(pairs, options_.pairs.blend);
  std::vector<Candidate> ordered;
  for (const size_t place : order) ordered.push_back(candidates[place]);
  GateDecision gate = DecideByPairs(pairs, order.front(), options_.pairs);
  candidates = std::move(ordered);
  decision->outcome = gate.outcome;
  decision->margin = gate.margin;
  decision->threshold = gate.threshold;
  decision->rule = std::move(gate.rule);
  decision->reason += "; re-ranker '" + reranker_->name() +
                      "' read the query with " + std::to_string(tools.size()) +
                      " tools: " + gate.reason;
  if (candidates.size() > kept) candidates.resize(kept);
}

}  // namespace nexus::route
