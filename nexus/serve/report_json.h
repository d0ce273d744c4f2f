// What routing and the tiers did, as JSON: for the `nexus` object of a response
// and for the command line's --json.
#ifndef NEXUS_SERVE_REPORT_JSON_H_
#define NEXUS_SERVE_REPORT_JSON_H_

#include "nexus/base/json.h"
#include "nexus/engine/call_generator.h"
#include "nexus/engine/prompt_plan.h"
#include "nexus/engine/tier.h"
#include "nexus/route/router.h"

namespace nexus::serve {

Json RouteJson(const route::RouteDecision& decision);
Json TierJson(const engine::TierReport& tier);
// How a call came about, without the call itself.
Json CallJson(const engine::GeneratedCall& call);
// Tokens of a plan's parts.
Json PlanTokensJson(const engine::PromptPlan& plan);

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_REPORT_JSON_H_
