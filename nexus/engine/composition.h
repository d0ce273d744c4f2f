// Composition: where blocks may be spliced side by side in a list of tools.
//
// Published work and our own measurements see tool choice suffer there, so it
// is done only where `nexus bench compose` has asked the same questions of
// spliced and prefilled lists, enough of them, and tool choice and exact
// arguments came out within half a point of each other. The rows of a model's
// profile say where that is; nothing else switches it on.
#ifndef NEXUS_ENGINE_COMPOSITION_H_
#define NEXUS_ENGINE_COMPOSITION_H_

#include <span>
#include <string>
#include <vector>

#include "nexus/base/json.h"
#include "nexus/base/paired_stats.h"
#include "nexus/base/result.h"
#include "nexus/engine/budget.h"

namespace nexus::engine {

// Shares of right answers, and the arm less prefill.
struct ComposedShare {
  double prefill = 0;
  double splice = 0;
  Interval difference_ci95;
  int n = 0;  // questions

  double difference() const { return splice - prefill; }
};

// One measured way of composing, for lists of up to `blocks` tools.
struct CompositionRow {
  int blocks = 0;
  std::string recipe;  // of the blocks (list_compile.h)
  double share = 0;    // decoded again of each block, by sensitivity
  // The longest list that was measured, with what stood before it.
  int max_tokens = 0;
  ComposedShare tool_choice;
  ComposedShare args_exact;
  double kl_mean = 0;
  // False: `reason` names the limit that is broken.
  bool allowed = false;
  std::string reason;
};

struct CompositionLimits {
  int n = 1000;               // questions, of tool choice and of arguments
  double difference = 0.005;  // of a share, either way
};

// Sets `allowed` and `reason` by the figures.
void JudgeComposition(const CompositionLimits& limits, CompositionRow* row);

Json CompositionRowToJson(const CompositionRow& row);
// Judged anew: a file can refuse what the limits would let pass, but can't
// allow what they don't. Throws what nlohmann throws, or runtime_error.
CompositionRow CompositionRowFromJson(const Json& json);

struct CompositionPlace {
  Budget budget = kDefaultBudget;
  int tools = 0;
  int tokens = 0;       // up to the list's end
  double noise_kl = 0;  // the model's, for LimitsOf
};

// The cheapest way that was measured well enough for this list. Of lists as
// long as this one or longer the nearest were measured decide. `strict` and
// `balanced` ask for their own KL too. kNotFound: nothing was measured, or only
// shorter lists; kUnimplemented: a limit is broken, which the message names.
Result<const CompositionRow*> FindComposition(
    std::span<const CompositionRow> rows, const CompositionPlace& place);

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_COMPOSITION_H_
