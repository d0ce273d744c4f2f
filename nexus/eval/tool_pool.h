// Pools: the N tools that a query has to choose from.
//
// Deterministic in (seed, query). Pools are nested: the one of 25 tools holds
// that of 10, so a sweep compares like with like. Twins of the right tools and
// tools that are neither right nor wrong stay out of the other slots.
#ifndef NEXUS_EVAL_TOOL_POOL_H_
#define NEXUS_EVAL_TOOL_POOL_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "nexus/eval/gold_table.h"

namespace nexus::eval {

enum class PoolKind {
  kAll,        // the whole registry
  kRandom,     // the right tool and random others
  kNeighbour,  // half of the slots are its nearest, the rest random
  kServer,     // its server's tools first, then random
};
std::string_view PoolKindName(PoolKind kind);  // "all", "random", ...
std::optional<PoolKind> ParsePoolKind(std::string_view name);

// Tools of the registry by nearness to a text, nearest first. Must not be the
// encoder under test: it would choose the pools that it is worst at.
using NearestTools =
    std::function<std::vector<int>(const std::string& text, int count)>;
NearestTools NearestByBm25(const route::ToolIndex& registry);
// Of an index that was built with the encoder.
NearestTools NearestByVectors(const route::ToolIndex& registry,
                              llm::Embedder* encoder);

struct PoolRequest {
  PoolKind kind = PoolKind::kAll;
  int size = 0;  // ignored for kAll; larger than the registry: all of it
  uint64_t seed = 1;
  // The right tools are taken out again: the near-miss.
  bool without_gold = false;
};

// Thread-compatible: remembers neighbours.
class PoolMaker {
 public:
  // `registry` must outlive it.
  PoolMaker(const route::ToolIndex& registry, NearestTools nearest)
      : registry_(registry), nearest_(std::move(nearest)) {}

  // Ascending, so that a tool's place says nothing. Each needed tool is there
  // by one of its names. A query that is out of scope has neighbours of its
  // text and no server.
  std::vector<int> Make(const LabelledQuery& query, const Gold& gold,
                        const PoolRequest& request);

 private:
  const std::vector<int>& Neighbours(const std::string& text);

  const route::ToolIndex& registry_;
  const NearestTools nearest_;
  std::unordered_map<std::string, std::vector<int>> neighbours_;
};

}  // namespace nexus::eval

#endif  // NEXUS_EVAL_TOOL_POOL_H_
