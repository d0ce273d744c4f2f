// GoldTable: labels in names -> tools of a registry by number.
//
// A name stands for every tool that has it, since several servers, or several
// schemas of one server, may share it; a twin of a right tool is right too (a
// user can't tell them apart). Labels that name no tool are listed, not fatal:
// published sets have some.
#ifndef NEXUS_EVAL_GOLD_TABLE_H_
#define NEXUS_EVAL_GOLD_TABLE_H_

#include <span>
#include <string>
#include <vector>

#include "nexus/eval/query_file.h"
#include "nexus/eval/twin_file.h"
#include "nexus/route/tool_index.h"

namespace nexus::eval {

struct Gold {
  // One entry a label: the tools that meet it, ascending. Several entries are
  // all needed unless `any`.
  std::vector<std::vector<int>> needed;
  std::vector<int> right;   // all of them, ascending
  std::vector<int> spared;  // neither right nor wrong, ascending
  std::vector<int> within;  // not empty: the label holds among these only
  bool any = false;

  bool in_scope() const { return !needed.empty(); }
  bool several_needed() const { return needed.size() > 1 && !any; }
  bool IsRight(int tool) const;
};

// What an order of tools (best first) is worth for a query that is in scope.
struct Hits {
  bool first = false;  // the first is one of the right ones
  // Share of what is needed among the first five: 0 or 1 for a single tool.
  double recall_at_5 = 0;
  double recall_at_20 = 0;
  bool complete_at_5 = false;
};
Hits CountHits(const Gold& gold, std::span<const int> order);

struct GoldTable {
  // The queries that could be used, and a Gold for each.
  std::vector<LabelledQuery> queries;
  std::vector<Gold> gold;
  // "query 12: no tool 'x'": labels that the registry lacks. A query that
  // keeps none of its labels is left out.
  std::vector<std::string> unknown;
  int left_out = 0;
};
// `twins`: beside those that the registry itself knows.
GoldTable ResolveGold(const route::ToolIndex& registry,
                      std::vector<LabelledQuery> queries,
                      const TwinLabels& twins = {});

}  // namespace nexus::eval

#endif  // NEXUS_EVAL_GOLD_TABLE_H_
