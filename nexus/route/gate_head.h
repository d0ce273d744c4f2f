// GateHead: the chance that the best tool is the right one, out of what both
// rankings say about it.
//
// A margin alone can't tell a clear choice among wrong tools from a clear
// choice of the right one; the height of the cosine and the words' opinion can.
// A logistic model over a few signals, fitted by `nexus calibrate-router` for
// one encoder: chance = 1 / (1 + exp(-(bias + sum of weight * signal))).
#ifndef NEXUS_ROUTE_GATE_HEAD_H_
#define NEXUS_ROUTE_GATE_HEAD_H_

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace nexus::route {

inline constexpr size_t kGateSignalCount = 8;
// The order of GateSignals and of GateHead::weights.
//   cosine       of the best tool by fused score
//   cosine_lead  of it over the best other by cosine; negative if that is ahead
//   words        its BM25 as a share of the scope's best
//   words_lead   of that share over the best other's
//   lead         of its fused score over the next
//   log_tools    log10 of the tools in scope
//   pair_score   of the best tool by the cross-encoder
//   pair_odds    log odds of it against the other candidates and against none
//                (PairOdds); both are 0 before a cross-encoder has read
//                anything
// Twins of the best tool are no others.
inline constexpr std::array<std::string_view, kGateSignalCount>
    kGateSignalNames = {"cosine", "cosine_lead", "words",      "words_lead",
                        "lead",   "log_tools",   "pair_score", "pair_odds"};
inline constexpr size_t kPairScore = 6;
inline constexpr size_t kPairOdds = 7;
using GateSignals = std::array<float, kGateSignalCount>;

struct SignalInput {
  // One score a tool, none of them empty.
  std::span<const float> dense;
  std::span<const float> bm25;
  std::span<const float> blended;  // by BlendScores
  std::span<const int> scope;
  std::span<const int> twin_class;
  int best = -1;  // a tool of the scope
};
GateSignals ReadSignals(const SignalInput& input);

struct GateHead {
  GateSignals weights{};
  float bias = 0;
  float route_at = 1;       // route from this chance on
  float abstain_below = 0;  // no tool fits below this one

  float Chance(const GateSignals& signals) const;
};

}  // namespace nexus::route

#endif  // NEXUS_ROUTE_GATE_HEAD_H_
