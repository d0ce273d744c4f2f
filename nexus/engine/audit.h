// Audit: was a spliced answer as near to full prefill as its budget says?
//
// After an answer, when nobody waits, the same prompt is prefilled as text in a
// session of its own, the same block is spliced with the same repair, and both
// are fed the tokens that were generated. What is found is added up for each
// schema, whether its cells were compiled or the conversation's own, in the
// store's settings; a schema whose splices break their budget is demoted: from
// then on it is prefilled, with the reason, until it is compiled anew or has
// learned as many samples again as it had (each of those prefills teaches one,
// unless the block is of a storage that doesn't learn). When several schemas of
// a model are demoted, so is the model, until they are lifted.
#ifndef NEXUS_ENGINE_AUDIT_H_
#define NEXUS_ENGINE_AUDIT_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

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

// kl_mean, top1, positions, demoted, verdict.
Json AuditToJson(const AuditReport& report);

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

// Whether this is the `every`-th spliced answer since the last audit; the count
// is kept in the store, across programs. Never for `every` 0, an answer that
// wasn't spliced, or a list. A store that can't count (full disk) audits now
// rather than never.
bool CountTowardsAudit(kv::BlockStore& store, const TierReport& tier,
                       int every);

// One spliced answer: all that is needed to splice it again.
struct AuditRequest {
  PromptPlan plan;
  TierReport tier;                           // of its Prepare
  std::shared_ptr<const kv::KvBlock> block;  // Session::spliced_block
  std::vector<llm::Token> generated;         // the first behind the plan's
  Budget budget = kDefaultBudget;
  // Told when the audit's context is there, and with null before it goes: for
  // whoever wants to cancel what it does.
  std::function<void(llm::Context*)> on_context;
};

// Of the answer that the session now ends with, and with `forgotten` behind
// that (Session::LeaveBatch); `tier` is its Prepare's.
AuditRequest AuditRequestFor(const Session& session, const PromptPlan& plan,
                             const TierReport& tier, Budget budget,
                             std::span<const llm::Token> forgotten = {});

// Adds the outcome to the schema's tally and demotes where needed. Takes one
// prefill and one splice, in a context of its own. kInvalidArgument: nothing
// was generated, or nothing spliced; kUnavailable: the splice can't be had
// again; kCancelled.
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
