// Gate: may the best candidate be taken without a second look?
//
// The margin rule (the paper's): route when the cosine of the best tool is
// ahead of the second by at least tau. Tools that are the same to a user
// (twins: same name and description on two servers, or equal schemas) are no
// rivals of each other. tau must be learnt for each encoder; 0.0136 is the
// paper's.
//
// Where the encoder is calibrated, a head over several signals decides instead
// (gate_head.h).
#ifndef NEXUS_ROUTE_GATE_H_
#define NEXUS_ROUTE_GATE_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "nexus/route/fusion.h"
#include "nexus/route/gate_head.h"

namespace nexus::route {

enum class Outcome {
  kRoute,    // take candidates[0]
  kRerank,   // a close call: the right tool is probably among the candidates
  kAbstain,  // no tool fits, or nothing to decide with
};

std::string_view OutcomeName(Outcome outcome);  // "route", "re-rank", "abstain"

struct GateOptions {
  float tau = 0.0136F;
  // Abstain below this cosine, unless a name is in the query: unrelated text.
  float min_cosine = 0.10F;
  // Without an encoder: route when the best BM25 score is ahead of the second
  // by this share of itself.
  float bm25_relative_margin = 0.25F;
  // In place of tau and min_cosine, where there are blended scores.
  std::optional<GateHead> head;
};

struct GateInput {
  // In fused order.
  std::span<const Candidate> candidates;
  // One score a tool. The margin is taken over all tools of the scope, since
  // the second-best by cosine may stand low in the fused order. `dense` empty:
  // no dense ranking, BM25 decides.
  std::span<const float> dense;
  std::span<const float> bm25;
  std::span<const float> blended;  // by BlendScores; may be empty
  std::span<const int> scope;
  // Twin class of each tool: equal numbers are twins.
  std::span<const int> twin_class;
  // Names in the query, plain words not counted.
  int exact_mentions = 0;
};

struct GateDecision {
  Outcome outcome = Outcome::kAbstain;
  float margin = 0;     // what was compared with...
  float threshold = 0;  // ...this
  std::string rule;     // stable, for scripts: "margin", "exact-name", ...
  std::string reason;   // one sentence for people
};

GateDecision Decide(const GateInput& input, const GateOptions& options = {});

// By a calibrated head alone.
GateDecision DecideByHead(const GateSignals& signals, const GateHead& head);

// As reasons print a score: four decimals.
std::string FormatSignal(float value);

}  // namespace nexus::route

#endif  // NEXUS_ROUTE_GATE_H_
