// A routing decision for people and for scripts.
#ifndef NEXUS_CLI_ROUTE_VIEW_H_
#define NEXUS_CLI_ROUTE_VIEW_H_

#include <string>

#include "nexus/base/json.h"
#include "nexus/route/router.h"

namespace nexus::cli {

Json DecisionJson(const route::RouteDecision& decision);
std::string DecisionText(const route::RouteDecision& decision);

}  // namespace nexus::cli

#endif  // NEXUS_CLI_ROUTE_VIEW_H_
