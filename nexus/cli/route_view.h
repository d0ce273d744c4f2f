// A routing decision for people.
#ifndef NEXUS_CLI_ROUTE_VIEW_H_
#define NEXUS_CLI_ROUTE_VIEW_H_

#include <string>

#include "nexus/route/router.h"

namespace nexus::cli {

std::string DecisionText(const route::RouteDecision& decision);

}  // namespace nexus::cli

#endif  // NEXUS_CLI_ROUTE_VIEW_H_
