// Audit: was a spliced answer as near to full prefill as its budget says?
//
// After an answer, when nobody waits, the same prompt is prefilled as text in a
// session of its own and both are fed the tokens that were generated. What is
// found is added up for each schema, in the store's settings; a schema whose
// splices break their budget is demoted: from then on it is prefilled, with the
// reason, until it is compiled anew or has learned as many samples again as it
// had (each of those prefills teaches one, unless the block is of a storage
// that doesn't learn). Splices from the conversation itself aren't audited: a
// fresh session can't repeat them. When several schemas of a model are demoted,
// so is the model, until they are lifted.
#ifndef NEXUS_ENGINE_AUDIT_H_
#define NEXUS_ENGINE_AUDIT_H_

#include <span>
#include <string>
#include <string_view>

#include "nexus/base/json.h"
#include "nexus/base/result.h"
#include "nexus/engine/engine.h"
#include "nexus/engine/prompt_plan.h"
#include "nexus/engine/session.h"

namespace nexus::engine {

struct AuditReport {
  double kl_mean = 0;
  double top1 = 0;
  int positions = 0;
  bool broke_budget = false;  // with all audits of this schema before it
  std::string verdict;        // one line
};

// What the audits of one schema's splices have found so far.
struct AuditTally {
  int audits = 0;
  int positions = 0;
  double kl_sum = 0;
  double top1_sum = 0;

  void Add(const AuditReport& report);
  double KlMean() const { return positions > 0 ? kl_sum / positions : 0; }
  double Top1() const { return positions > 0 ? top1_sum / positions : 1; }
};

Json TallyToJson(const AuditTally& tally);
// A damaged record counts as none.
AuditTally TallyFromText(std::string_view text);

// One call has few positions, whose mean scatters: a tally is judged from
// kJudgedPositions on, and before that only when it is far beyond its limit.
inline constexpr int kJudgedPositions = 100;
bool BreaksBudget(const AuditTally& tally, const BudgetLimits& limits);

struct AuditRequest {
  const PromptPlan* plan = nullptr;
  std::span<const llm::Token> generated;  // the arguments' tokens
  PrepareOptions prepare;                 // as the answer was prepared
};

// Adds the outcome to the schema's tally and demotes where needed. Takes one
// prefill and one splice. kInvalidArgument: nothing was generated;
// kUnavailable: the splice can't be had again (the block was evicted).
Result<AuditReport> AuditSplice(const Engine& engine,
                                const AuditRequest& request);

// `schema` is Engine::SchemaKey of the block's tokens: what is known of a
// schema holds for whichever of its blocks is spliced.
//
// ok: it may be spliced. kUnimplemented with the audit's verdict.
Status CheckDemotion(kv::BlockStore& store, const kv::BlockKey& schema);
// Takes a demotion and its tally back: the schema was compiled anew.
Status ClearDemotion(kv::BlockStore& store, const kv::BlockKey& schema);
// The same if its block now has twice the samples that it was demoted with.
Status LiftDemotionIfLearned(kv::BlockStore& store, const kv::BlockKey& schema,
                             int samples);

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_AUDIT_H_
