// PairGate: what follows from a cross-encoder's reading of the candidates.
//
// The re-ranker was trained with a softmax over a list of tools and an empty
// seat of logit 0, so its scores are logits against "none of them": the log
// odds of a tool among the candidates are its score less log(1 + the sum of
// exp(score) over the others). Where the pair of encoder and re-ranker is
// calibrated, a head over these and the first stage's signals decides
// (gate_head.h); elsewhere the odds do.
#ifndef NEXUS_ROUTE_PAIR_GATE_H_
#define NEXUS_ROUTE_PAIR_GATE_H_

#include <optional>
#include <span>
#include <vector>

#include "nexus/route/gate.h"
#include "nexus/route/gate_head.h"

namespace nexus::route {

struct PairGateOptions {
  // What the fused score weighs beside the cross-encoder's, for the order.
  float blend = 0;
  // Without a head: route from these log odds on, abstain below their
  // negative. 2.2 is 9 to 1.
  float route_odds = 2.2F;
  std::optional<GateHead> head;
};

struct PairInput {
  std::span<const int> tools;     // that were read
  std::span<const float> scores;  // of the cross-encoder, as `tools`
  // What the first stage knew; `blended` and `dense` may be empty, `best` is
  // ignored.
  SignalInput first;
};

// Places in `input.tools`, best first; equal ones in their order.
std::vector<size_t> OrderByPairs(const PairInput& input, float blend);

// Of input.tools[best]; its twins are neither for nor against it.
float PairOdds(const PairInput& input, size_t best);

// The first stage's signals of input.tools[best], and what was read.
GateSignals ReadPairSignals(const PairInput& input, size_t best);

// `input.tools` must not be empty.
GateDecision DecideByPairs(const PairInput& input, size_t best,
                           const PairGateOptions& options);

}  // namespace nexus::route

#endif  // NEXUS_ROUTE_PAIR_GATE_H_
