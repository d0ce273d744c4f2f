#include "nexus/eval/tool_pool.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "nexus/base/hash.h"
#include "nexus/eval/draws.h"
#include "nexus/route/fusion.h"

namespace nexus::eval {
namespace {

constexpr std::array<std::pair<std::string_view, PoolKind>, 4> kNames = {{
    {"all", PoolKind::kAll},
    {"random", PoolKind::kRandom},
    {"neighbour", PoolKind::kNeighbour},
    {"server", PoolKind::kServer},
}};

std::vector<int> AllTools(const route::ToolIndex& registry) {
  std::vector<int> tools(registry.tools().size());
  std::iota(tools.begin(), tools.end(), 0);
  return tools;
}

// Slots that fill up; a tool takes one once.
class Slots {
 public:
  Slots(size_t registry_size, size_t size)
      : taken_(registry_size, false), size_(size) {}

  void Forbid(const std::vector<int>& tools) {
    for (const int tool : tools) taken_[static_cast<size_t>(tool)] = true;
  }
  void Take(int tool) {
    tools_.push_back(tool);
    taken_[static_cast<size_t>(tool)] = true;
  }
  // From the front of `order`, until `limit` slots are full.
  void Fill(std::span<const int> order, size_t limit) {
    for (const int tool : order) {
      if (tools_.size() >= std::min(limit, size_)) return;
      if (!taken_[static_cast<size_t>(tool)]) Take(tool);
    }
  }
  size_t count() const { return tools_.size(); }
  std::vector<int> Sorted() && {
    std::sort(tools_.begin(), tools_.end());
    return std::move(tools_);
  }

 private:
  std::vector<bool> taken_;
  std::vector<int> tools_;
  size_t size_;
};

}  // namespace

std::string_view PoolKindName(PoolKind kind) {
  for (const auto& [name, value] : kNames) {
    if (value == kind) return name;
  }
  return "unknown";
}

std::optional<PoolKind> ParsePoolKind(std::string_view name) {
  for (const auto& [known, value] : kNames) {
    if (known == name) return value;
  }
  return std::nullopt;
}

NearestTools NearestByBm25(const route::ToolIndex& registry) {
  return [&registry](const std::string& text, int count) {
    const std::vector<float> scores = registry.bm25().Score(text);
    return route::RankTools(scores, AllTools(registry),
                            {.depth = count, .scores_are_lexical = true});
  };
}

NearestTools NearestByVectors(const route::ToolIndex& registry,
                              llm::Embedder* encoder) {
  return [&registry, encoder](const std::string& text, int count) {
    const auto vectors = encoder->Embed({&text, 1}, llm::TextRole::kDocument);
    if (!vectors.ok() || vectors->size() != 1) return std::vector<int>();
    const auto scores = registry.slb()->ScoreAll(vectors->front());
    if (!scores.ok()) return std::vector<int>();
    return route::RankTools(*scores, AllTools(registry), {.depth = count});
  };
}

const std::vector<int>& PoolMaker::Neighbours(const std::string& text) {
  const auto [it, is_new] = neighbours_.try_emplace(text);
  if (is_new) {
    it->second = nearest_(text, static_cast<int>(registry_.tools().size()));
  }
  return it->second;
}

std::vector<int> PoolMaker::Make(const LabelledQuery& query, const Gold& gold,
                                 const PoolRequest& request) {
  if (!gold.within.empty()) return gold.within;
  const size_t registry_size = registry_.tools().size();
  if (request.kind == PoolKind::kAll) {
    std::vector<int> tools = AllTools(registry_);
    if (request.without_gold) {
      std::erase_if(tools, [&](int tool) { return gold.IsRight(tool); });
    }
    return tools;
  }
  const uint64_t draw = request.seed * 0x9E3779B97F4A7C15ULL ^
                        Xxh3(query.text.data(), query.text.size());
  Slots slots(registry_size, static_cast<size_t>(std::max(request.size, 0)));
  slots.Forbid(gold.right);
  slots.Forbid(gold.spared);
  // One tool for each need; which of several of one name, the draw says.
  Draws draws(draw);
  std::vector<int> present;
  for (const std::vector<int>& tools : gold.needed) {
    const int tool = tools[draws.Below(tools.size())];
    if (std::find(present.begin(), present.end(), tool) == present.end()) {
      present.push_back(tool);
      slots.Take(tool);
    }
  }
  if (request.kind == PoolKind::kNeighbour) {
    // The needed tools share half of the slots equally.
    const size_t half = static_cast<size_t>(request.size) / 2;
    if (present.empty()) slots.Fill(Neighbours(query.text), half);
    const size_t own = present.size();
    for (size_t i = 0; i < own; ++i) {
      slots.Fill(Neighbours(registry_.search_text(present[i])),
                 own + half * (i + 1) / own);
    }
  } else if (request.kind == PoolKind::kServer) {
    std::vector<int> same_server = Shuffled(registry_size, draw + 1);
    std::erase_if(same_server, [&](int tool) {
      return std::none_of(present.begin(), present.end(), [&](int right) {
        return registry_.tool(right).server == registry_.tool(tool).server;
      });
    });
    slots.Fill(same_server, static_cast<size_t>(request.size));
  }
  slots.Fill(Shuffled(registry_size, draw), static_cast<size_t>(request.size));
  std::vector<int> pool = std::move(slots).Sorted();
  if (request.without_gold) {
    std::erase_if(pool, [&](int tool) { return gold.IsRight(tool); });
  }
  return pool;
}

}  // namespace nexus::eval
