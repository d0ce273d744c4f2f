#include "nexus/serve/report_json.h"

#include <string>
#include <utility>

namespace nexus::serve {

Json RouteJson(const route::RouteDecision& decision) {
  Json candidates = Json::array();
  for (const route::Candidate& candidate : decision.candidates) {
    candidates.push_back({{"tool", schema::ToolId(decision.tool(candidate))},
                          {"score", candidate.score},
                          {"cosine", candidate.dense},
                          {"bm25", candidate.bm25},
                          {"dense_rank", candidate.dense_rank},
                          {"bm25_rank", candidate.bm25_rank},
                          {"exact_name", candidate.exact_name}});
  }
  return {
      {"outcome", std::string(route::OutcomeName(decision.outcome))},
      {"tool",
       decision.candidates.empty() ||
               decision.outcome == route::Outcome::kAbstain
           ? Json(nullptr)
           : Json(schema::ToolId(decision.tool(decision.candidates.front())))},
      {"margin", decision.margin},
      {"threshold", decision.threshold},
      {"rule", decision.rule},
      {"reason", decision.reason},
      {"latency_us",
       {{"embed", decision.timings.embed_us},
        {"scan", decision.timings.scan_us},
        {"bm25", decision.timings.bm25_us},
        {"gate", decision.timings.gate_us},
        {"rerank", decision.timings.rerank_us}}},
      {"candidates", std::move(candidates)}};
}

Json TierJson(const engine::TierReport& tier) {
  return {{"tier", std::string(engine::TierName(tier.tier))},
          {"reasons", tier.reasons},
          {"reused_tokens", tier.reused_tokens},
          {"restored_tokens", tier.restored_tokens},
          {"spliced_tokens", tier.spliced_tokens},
          {"recomputed_tokens", tier.recomputed_tokens},
          {"prefilled_tokens", tier.prefilled_tokens},
          {"policy", tier.policy},
          {"recompute_share", tier.recompute_share},
          {"ms",
           {{"lookup", tier.lookup_ms},
            {"write", tier.write_ms},
            {"repair", tier.repair_ms},
            {"prefill", tier.decode_ms}}},
          {"block_bytes", tier.block_bytes}};
}

Json CallJson(const engine::GeneratedCall& call) {
  return {{"valid", call.valid},
          {"invalid_reason", call.invalid_reason},
          {"repair_rounds", call.repair_rounds},
          {"closed_at_limit", call.closed_at_limit},
          {"relaxed", call.relaxed}};
}

Json PlanTokensJson(const engine::PromptPlan& plan) {
  return {{"history", plan.history.size()},
          {"block", plan.block.size()},
          {"user", plan.user.size()},
          {"preamble", plan.preamble.size()}};
}

}  // namespace nexus::serve
