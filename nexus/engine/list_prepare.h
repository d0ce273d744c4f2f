// A list of tools brought into a session, piece by piece.
//
// Exact lists. Each piece's cells, as they were behind every token before them,
// are an exact variant in the store; its key is those tokens. So the stored
// pieces form a trie over tool sequences: lists that begin alike share their
// beginning, on disk too, and a list that changed in one place is decoded again
// only from there on. Every piece is decoded in a call of its own. Its cells
// are then a function of the tokens alone, whichever of them were restored: a
// list put together from three conversations has the very bits of one decoded
// at once.
//
// Composed lists. Blocks compiled for a place among other tools
// (list_compile.h) are spliced side by side, each repaired within its own
// budget. Published work and our own measurements see tool choice suffer here,
// so it is done only when asked for, or allowed by the model's profile
// (composition.h).
#ifndef NEXUS_ENGINE_LIST_PREPARE_H_
#define NEXUS_ENGINE_LIST_PREPARE_H_

#include "nexus/base/result.h"
#include "nexus/engine/prompt_plan.h"
#include "nexus/engine/session.h"
#include "nexus/engine/tier.h"

namespace nexus::engine {

// Session::Prepare for a plan in pieces. The report's tier is the least exact
// that was used: kExactPrefix when the session held the whole list,
// kExactVariant when the store had what was missing, kPrefill when pieces were
// decoded (with the number in reasons, and what was restored still counted as
// such), kSplice when a block was spliced.
//   kAuto          exact pieces, then decoding; where the profile allows a
//                  list like this one, its blocks instead of decoding
//   kExactVariant  the same, never blocks
//   kExactPrefix   the session's own cells, then decoding
//   kSplice        blocks wherever there are some
//   kPrefill       everything decoded, in one batch
// A tool whose block isn't there is decoded, with the reason; so is, under
// kAuto, every tool of a list that the profile doesn't allow.
Result<TierReport> PrepareList(Session& session, const PromptPlan& plan,
                               const PrepareOptions& options);

// Keeps the pieces of the plan that the session holds exactly and the store
// doesn't. After an answer, never before one.
Status StoreList(Session& session, const PromptPlan& plan);

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_LIST_PREPARE_H_
