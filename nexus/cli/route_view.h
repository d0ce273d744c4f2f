// A routing decision for people.
#ifndef NEXUS_CLI_ROUTE_VIEW_H_
#define NEXUS_CLI_ROUTE_VIEW_H_

#include <string>

#include "nexus/route/router.h"

namespace nexus::cli {

std::string DecisionText(const route::RouteDecision& decision);

// The ranked candidates alone; empty when there are none.
std::string CandidateTable(const route::RouteDecision& decision);

// "cosine 0.523, margin 0.0312, tau 0.0136", in the terms of the rule that
// decided; the decision must have a candidate.
std::string GateNumbers(const route::RouteDecision& decision);

}  // namespace nexus::cli

#endif  // NEXUS_CLI_ROUTE_VIEW_H_
