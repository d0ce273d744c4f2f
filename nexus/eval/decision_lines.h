// Every decision of a route study as JSON lines, for whoever wants to count
// something that the summary doesn't.
#ifndef NEXUS_EVAL_DECISION_LINES_H_
#define NEXUS_EVAL_DECISION_LINES_H_

#include <string>

#include "nexus/eval/route_study.h"

namespace nexus::eval {

// A line a trial: {id, set, part, kind ("in-scope", "out-of-scope",
// "near-miss"), pool, seed, query, gold, candidates
// (best first), right (the first of them), outcome, rule, margin, top_score,
// lead}. `pool` is the number of tools to choose from.
std::string DecisionLines(const RouteStudy& study);

}  // namespace nexus::eval

#endif  // NEXUS_EVAL_DECISION_LINES_H_
