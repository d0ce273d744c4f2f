#include "nexus/eval/decision_lines.h"

#include "nexus/base/json.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::eval {
namespace {

std::string_view QueryKindName(QueryKind kind) {
  switch (kind) {
    case QueryKind::kInScope:
      return "in-scope";
    case QueryKind::kOutOfScope:
      return "out-of-scope";
    case QueryKind::kNearMiss:
      return "near-miss";
  }
  return "unknown";
}

Json DecisionJson(const RouteStudy& study, const RouteTrial& trial) {
  const auto query = static_cast<size_t>(trial.query);
  const LabelledQuery& labelled = study.labels.queries[query];
  Json candidates = Json::array();
  for (const int tool : trial.first) {
    candidates.push_back(schema::ToolId(study.registry->tool(tool)));
  }
  const bool right = trial.kind == QueryKind::kInScope && trial.chosen >= 0 &&
                     study.labels.gold[query].IsRight(trial.chosen);
  return {{"id", labelled.id},
          {"set", labelled.set},
          {"part", labelled.part},
          {"kind", QueryKindName(trial.kind)},
          {"pool", trial.pool_tools},
          {"seed", trial.seed},
          {"query", labelled.text},
          {"gold", labelled.gold},
          {"candidates", std::move(candidates)},
          {"right", right},
          {"outcome", route::OutcomeName(trial.outcome)},
          {"rule", trial.rule},
          {"margin", trial.margin},
          {"top_score", trial.top_score},
          {"lead", trial.lead}};
}

}  // namespace

std::string DecisionLines(const RouteStudy& study) {
  std::string lines;
  for (const StudyPoint& point : study.points) {
    for (const RouteTrial& trial : point.trials) {
      lines += DumpJson(DecisionJson(study, trial)) + "\n";
    }
  }
  return lines;
}

}  // namespace nexus::eval
