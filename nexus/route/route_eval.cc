// route_eval: how well routing finds the right tool, over a registry and
// labelled queries. For developers; docs/routing.md has its figures.
//
//   route_eval --registry TOOLS.jsonl --queries Q.jsonl [--encoder FILE.gguf]
//              [--cache FILE.nxslb] [--threads N] [--limit N] [--tau X]
//
// A query line is {"query", "gold": [names]}; no gold: out of scope. Prints one
// JSON object.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

#include "nexus/base/json.h"
#include "nexus/llm/embedder.h"
#include "nexus/route/router.h"

namespace nexus::route {
namespace {

struct Flags {
  std::string registry;
  std::string queries;
  std::string encoder;
  std::string cache;
  size_t limit = 0;
  int threads = 0;
  float tau = GateOptions().tau;
};

struct Query {
  std::string text;
  std::vector<std::string> gold;
};

Result<std::vector<Query>> ReadQueries(const std::string& path, size_t limit) {
  std::ifstream in(path);
  if (!in) return NotFoundError("can't read " + path);
  std::vector<Query> queries;
  std::string line;
  while (std::getline(in, line) && (limit == 0 || queries.size() < limit)) {
    if (line.empty()) continue;
    const std::string where = path + ":" + std::to_string(queries.size() + 1);
    NEXUS_ASSIGN_OR_RETURN(const Json row, ParseJson(line, where));
    if (!row.is_object() || !row.contains("query") ||
        !row["query"].is_string()) {
      return InvalidArgumentError(where + ": no \"query\"");
    }
    Query query{row["query"].get<std::string>(), {}};
    if (row.contains("gold") && row["gold"].is_array()) {
      for (const Json& name : row["gold"]) {
        if (name.is_string()) query.gold.push_back(name.get<std::string>());
      }
    }
    queries.push_back(std::move(query));
  }
  return queries;
}

// Share of queries with a gold tool among the first 1, 5 and 20.
class HitCounter {
 public:
  void Add(const ToolIndex& index, const Query& query,
           std::span<const int> order) {
    ++queries_;
    for (size_t i = 0; i < std::min<size_t>(order.size(), 20); ++i) {
      const std::string& name = index.tool(order[i]).name;
      if (std::find(query.gold.begin(), query.gold.end(), name) ==
          query.gold.end()) {
        continue;
      }
      top1_ += i < 1;
      top5_ += i < 5;
      ++top20_;
      return;
    }
  }
  Json ToJson() const {
    const auto percent = [&](int hits) {
      return 0.1 *
             static_cast<int>(1000.0 * hits / std::max(queries_, 1) + 0.5);
    };
    return {{"top1", percent(top1_)},
            {"hit5", percent(top5_)},
            {"hit20", percent(top20_)}};
  }

 private:
  int queries_ = 0;
  int top1_ = 0;
  int top5_ = 0;
  int top20_ = 0;
};

Json Percentiles(std::vector<double> values) {
  if (values.empty()) return nullptr;
  std::sort(values.begin(), values.end());
  return {{"p50", values[values.size() / 2]},
          {"p95", values[values.size() * 95 / 100]}};
}

Status Run(const Flags& flags) {
  NEXUS_ASSIGN_OR_RETURN(auto tools, schema::ReadRegistryFile(flags.registry));
  NEXUS_ASSIGN_OR_RETURN(const auto queries,
                         ReadQueries(flags.queries, flags.limit));
  std::unique_ptr<llm::Embedder> encoder;
  if (!flags.encoder.empty()) {
    llm::EncoderOptions encoder_options;
    encoder_options.path = flags.encoder;
    encoder_options.threads = flags.threads;
    NEXUS_ASSIGN_OR_RETURN(encoder, llm::LoadEncoder(encoder_options));
  }
  ToolIndexOptions index_options;
  index_options.cache_path = flags.cache;
  index_options.progress = [](int done, int total) {
    std::fprintf(stderr, "\rembedded %d/%d", done, total);
    if (done == total) std::fprintf(stderr, "\n");
  };
  NEXUS_ASSIGN_OR_RETURN(
      const std::shared_ptr<const ToolIndex> index,
      ToolIndex::Build(std::move(tools), encoder.get(), index_options));

  // BM25 apart, with or without function words, as a baseline.
  std::vector<std::string> texts;
  std::vector<int> scope;
  for (size_t i = 0; i < index->tools().size(); ++i) {
    texts.push_back(index->search_text(static_cast<int>(i)));
    scope.push_back(static_cast<int>(i));
  }
  Bm25Options baseline_options;
  baseline_options.drop_function_words = false;
  const Bm25Index baseline(texts, baseline_options);

  RouterOptions router_options;
  router_options.gate.tau = flags.tau;
  const Router router(index, encoder.get(), router_options);
  HitCounter bm25_hits, baseline_hits, dense_hits, fused_hits;
  std::vector<double> embed, scan, bm25, gate;
  // Outcome or rule -> (times, times with a gold tool first).
  std::map<std::string, std::pair<int, int>> outcomes, rules;
  std::vector<double> top_cosines;
  for (const Query& query : queries) {
    const std::vector<float> words = index->bm25().Score(query.text);
    bm25_hits.Add(*index, query,
                  RankTools(words, scope, {.scores_are_lexical = true}));
    const std::vector<float> plain = baseline.Score(query.text);
    baseline_hits.Add(*index, query,
                      RankTools(plain, scope, {.scores_are_lexical = true}));
    // Deep enough to hold every tool that either ranking has.
    NEXUS_ASSIGN_OR_RETURN(
        const RouteDecision decision,
        router.Route(query.text, {.top_k = 2 * kFusionDepth}));
    std::vector<int> fused;
    std::vector<std::pair<int, int>> dense;  // rank, tool
    for (const Candidate& c : decision.candidates) {
      fused.push_back(c.tool);
      if (c.dense_rank > 0) dense.emplace_back(c.dense_rank, c.tool);
      if (c.dense_rank == 1) top_cosines.push_back(c.dense);
    }
    std::sort(dense.begin(), dense.end());
    std::vector<int> dense_order;
    for (const auto& [rank, tool] : dense) dense_order.push_back(tool);
    dense_hits.Add(*index, query, dense_order);
    fused_hits.Add(*index, query, fused);
    const bool right =
        !fused.empty() &&
        std::find(query.gold.begin(), query.gold.end(),
                  index->tool(fused.front()).name) != query.gold.end();
    for (auto* counts : {&outcomes[std::string(OutcomeName(decision.outcome))],
                         &rules[decision.rule]}) {
      ++counts->first;
      counts->second += right;
    }
    embed.push_back(decision.timings.embed_us);
    scan.push_back(decision.timings.scan_us);
    bm25.push_back(decision.timings.bm25_us);
    gate.push_back(decision.timings.gate_us);
  }

  Json out = {{"schema_version", 1},
              {"registry", flags.registry},
              {"tools", index->tools().size()},
              {"queries", queries.size()},
              {"encoder", index->encoder_fingerprint()},
              {"tau", flags.tau},
              {"bm25_baseline", baseline_hits.ToJson()},
              {"bm25", bm25_hits.ToJson()}};
  if (encoder != nullptr) {
    out["dense_int8"] = dense_hits.ToJson();
    out["fused"] = fused_hits.ToJson();
    std::sort(top_cosines.begin(), top_cosines.end());
    Json& spread = out["top_cosine"];
    for (const size_t percent : {1, 5, 25, 50, 75, 95, 99}) {
      if (top_cosines.empty()) break;
      spread["p" + std::to_string(percent)] =
          top_cosines[top_cosines.size() * percent / 100];
    }
  }
  for (const auto& [name, counts] : outcomes) {
    out["outcomes"][name] = {{"n", counts.first}, {"right", counts.second}};
  }
  for (const auto& [name, counts] : rules) {
    out["rules"][name] = {{"n", counts.first}, {"right", counts.second}};
  }
  out["us"] = {{"embed", Percentiles(embed)},
               {"scan", Percentiles(scan)},
               {"bm25", Percentiles(bm25)},
               {"gate", Percentiles(gate)}};
  std::cout << DumpJson(out) << "\n";
  return Status::Ok();
}

}  // namespace
}  // namespace nexus::route

int main(int argc, char** argv) {
  CLI::App app("Measures routing over a registry and labelled queries.");
  nexus::route::Flags flags;
  app.add_option("--registry", flags.registry, "tools, JSON lines")->required();
  app.add_option("--queries", flags.queries, "queries, JSON lines")->required();
  app.add_option("--encoder", flags.encoder, "GGUF file; none: BM25 only");
  app.add_option("--cache", flags.cache, "embedding cache file");
  app.add_option("--threads", flags.threads, "of the encoder; 0: all cores");
  app.add_option("--limit", flags.limit, "only the first N queries");
  app.add_option("--tau", flags.tau, "threshold of the margin gate");
  CLI11_PARSE(app, argc, argv);
  const nexus::Status status = nexus::route::Run(flags);
  if (!status.ok()) {
    std::cerr << "route_eval: " << status << "\n";
    return 1;
  }
  return 0;
}
