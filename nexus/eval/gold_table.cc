#include "nexus/eval/gold_table.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace nexus::eval {
namespace {

void SortUnique(std::vector<int>* tools) {
  std::sort(tools->begin(), tools->end());
  tools->erase(std::unique(tools->begin(), tools->end()), tools->end());
}

class NameTable {
 public:
  NameTable(const route::ToolIndex& registry, const TwinLabels& twins)
      : classes_(TwinClasses(registry, twins)) {
    const int count = static_cast<int>(registry.tools().size());
    for (int i = 0; i < count; ++i) {
      const schema::ToolSchema& tool = registry.tool(i);
      named_[tool.name].push_back(i);
      if (!tool.server.empty()) named_[schema::ToolId(tool)].push_back(i);
      twins_[classes_[static_cast<size_t>(i)]].push_back(i);
    }
  }

  // With twins, ascending; empty when unknown.
  std::vector<int> Find(const std::string& name) const {
    const auto it = named_.find(name);
    if (it == named_.end()) return {};
    std::vector<int> tools;
    for (const int tool : it->second) {
      const std::vector<int>& same =
          twins_.at(classes_[static_cast<size_t>(tool)]);
      tools.insert(tools.end(), same.begin(), same.end());
    }
    SortUnique(&tools);
    return tools;
  }

  std::vector<int> FindAll(const std::vector<std::string>& names) const {
    std::vector<int> tools;
    for (const std::string& name : names) {
      const std::vector<int> found = Find(name);
      tools.insert(tools.end(), found.begin(), found.end());
    }
    SortUnique(&tools);
    return tools;
  }

 private:
  const std::vector<int> classes_;  // [tool]
  std::unordered_map<std::string, std::vector<int>> named_;
  std::unordered_map<int, std::vector<int>> twins_;
};

double RecallAt(const Gold& gold, std::span<const int> order, size_t depth) {
  const std::span<const int> first = order.first(std::min(order.size(), depth));
  const auto found = std::count_if(
      gold.needed.begin(), gold.needed.end(), [&](const auto& tools) {
        return std::any_of(first.begin(), first.end(), [&](int tool) {
          return std::binary_search(tools.begin(), tools.end(), tool);
        });
      });
  if (gold.any) return found > 0 ? 1 : 0;
  return static_cast<double>(found) / static_cast<double>(gold.needed.size());
}

}  // namespace

bool Gold::IsRight(int tool) const {
  return std::binary_search(right.begin(), right.end(), tool);
}

Hits CountHits(const Gold& gold, std::span<const int> order) {
  Hits hits;
  if (!gold.in_scope() || order.empty()) return hits;
  hits.first = gold.IsRight(order.front());
  hits.recall_at_5 = RecallAt(gold, order, 5);
  hits.recall_at_20 = RecallAt(gold, order, 20);
  hits.complete_at_5 = hits.recall_at_5 == 1;
  return hits;
}

GoldTable ResolveGold(const route::ToolIndex& registry,
                      std::vector<LabelledQuery> queries,
                      const TwinLabels& twins) {
  const NameTable names(registry, twins);
  GoldTable table;
  for (LabelledQuery& query : queries) {
    Gold gold;
    gold.any = query.gold_any;
    bool is_complete = true;
    for (const std::string& name : query.gold) {
      std::vector<int> tools = names.Find(name);
      if (tools.empty()) {
        table.unknown.push_back("query " + query.id + ": no tool '" + name +
                                "'");
        is_complete = false;
        continue;
      }
      gold.right.insert(gold.right.end(), tools.begin(), tools.end());
      // Two labels of one tool (a name and its id, or twins) are one need.
      if (std::find(gold.needed.begin(), gold.needed.end(), tools) ==
          gold.needed.end()) {
        gold.needed.push_back(std::move(tools));
      }
    }
    SortUnique(&gold.right);
    gold.spared = names.FindAll(query.related);
    std::erase_if(gold.spared, [&](int tool) { return gold.IsRight(tool); });
    gold.within = names.FindAll(query.within);
    // Without any of its labels a query isn't out of scope, just unusable; so
    // is one that needs several tools of which the registry lacks one, and a
    // scope that it lacks.
    if (gold.needed.empty() != query.gold.empty() ||
        (!is_complete && !query.gold_any) ||
        gold.within.empty() != query.within.empty()) {
      ++table.left_out;
      continue;
    }
    table.queries.push_back(std::move(query));
    table.gold.push_back(std::move(gold));
  }
  return table;
}

}  // namespace nexus::eval
