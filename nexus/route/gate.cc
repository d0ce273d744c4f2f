#include "nexus/route/gate.h"

#include <cstdio>

#include "nexus/route/best_two.h"

namespace nexus::route {
namespace {

GateDecision DecideByName(const GateInput& input) {
  GateDecision decision;
  const std::span<const Candidate> all = input.candidates;
  if (input.exact_mentions > 1) {
    decision.outcome = Outcome::kRerank;
    decision.rule = "exact-names";
    decision.reason = "the query names " +
                      std::to_string(input.exact_mentions) +
                      " tools, in this order; one can't be chosen for it";
    return decision;
  }
  for (const Candidate& c : all) {
    if (c.exact_name &&
        input.twin_class[static_cast<size_t>(c.tool)] !=
            input.twin_class[static_cast<size_t>(all.front().tool)]) {
      decision.outcome = Outcome::kRerank;
      decision.rule = "exact-name-shared";
      decision.reason =
          "the query names a tool, but several different tools have that "
          "name; write server/name to choose";
      return decision;
    }
  }
  decision.outcome = Outcome::kRoute;
  decision.rule = "exact-name";
  decision.reason = "the query names this tool";
  return decision;
}

GateDecision DecideByBm25(const GateInput& input, const GateOptions& options) {
  GateDecision decision;
  decision.rule = "bm25-margin";
  decision.threshold = options.bm25_relative_margin;
  const auto [best_tool, rival] =
      FindBestTwo(input.bm25, input.scope, input.twin_class);
  const float best = input.bm25[static_cast<size_t>(best_tool)];
  if (best <= 0) {
    decision.rule = "no-match";
    decision.reason =
        "no word of the query occurs in any tool, and there is no "
        "dense ranking";
    return decision;
  }
  const float second =
      rival < 0 ? 0.0F : input.bm25[static_cast<size_t>(rival)];
  decision.margin = (best - second) / best;
  const bool clear = decision.margin >= decision.threshold;
  decision.outcome = clear ? Outcome::kRoute : Outcome::kRerank;
  decision.reason = "words alone (BM25): the best tool is ahead by " +
                    FormatSignal(decision.margin) + " of its score, " +
                    (clear ? "at least " : "less than ") +
                    FormatSignal(decision.threshold);
  return decision;
}

}  // namespace

std::string_view OutcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::kRoute:
      return "route";
    case Outcome::kRerank:
      return "re-rank";
    case Outcome::kAbstain:
      return "abstain";
  }
  return "unknown";
}

std::string FormatSignal(float value) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.4f", static_cast<double>(value));
  return text;
}

GateDecision DecideByHead(const GateSignals& signals, const GateHead& head) {
  GateDecision decision;
  decision.margin = head.Chance(signals);
  decision.threshold = head.route_at;
  decision.reason =
      "the chance that it is right is " + FormatSignal(decision.margin) + ", ";
  if (decision.margin >= head.route_at) {
    decision.outcome = Outcome::kRoute;
    decision.rule = "head";
    decision.reason += "at least " + FormatSignal(head.route_at);
  } else if (decision.margin < head.abstain_below) {
    decision.rule = "head-low";
    decision.threshold = head.abstain_below;
    decision.reason += "less than " + FormatSignal(head.abstain_below);
  } else {
    decision.outcome = Outcome::kRerank;
    decision.rule = "head-unsure";
    decision.reason += "less than " + FormatSignal(head.route_at);
  }
  std::string_view separator = ": ";
  for (size_t i = 0; i < kGateSignalCount; ++i) {
    // What no weight uses has decided nothing.
    if (head.weights[i] == 0) continue;
    decision.reason += separator;
    decision.reason += kGateSignalNames[i];
    decision.reason += " " + FormatSignal(signals[i]);
    separator = ", ";
  }
  return decision;
}

GateDecision Decide(const GateInput& input, const GateOptions& options) {
  if (input.candidates.empty() || input.scope.empty()) {
    GateDecision decision;
    decision.rule = "no-match";
    decision.reason = "no tool matches the query";
    return decision;
  }
  if (input.exact_mentions > 0) return DecideByName(input);
  if (input.dense.empty()) return DecideByBm25(input, options);
  if (options.head.has_value() && !input.blended.empty()) {
    return DecideByHead(ReadSignals({.dense = input.dense,
                                     .bm25 = input.bm25,
                                     .blended = input.blended,
                                     .scope = input.scope,
                                     .twin_class = input.twin_class,
                                     .best = input.candidates.front().tool}),
                        *options.head);
  }

  GateDecision decision;
  const auto [best, rival] =
      FindBestTwo(input.dense, input.scope, input.twin_class);
  const float cosine = input.dense[static_cast<size_t>(best)];
  if (cosine < options.min_cosine) {
    decision.rule = "low-score";
    decision.margin = cosine;
    decision.threshold = options.min_cosine;
    decision.reason = "the closest tool has a cosine of only " +
                      FormatSignal(cosine) + ", less than " +
                      FormatSignal(options.min_cosine);
    return decision;
  }
  if (rival < 0) {
    decision.outcome = Outcome::kRoute;
    decision.rule = "only-tool";
    decision.margin = cosine;
    decision.threshold = options.min_cosine;
    decision.reason =
        "there is no other tool to confuse it with, and its "
        "cosine is " +
        FormatSignal(cosine);
    return decision;
  }
  decision.margin = cosine - input.dense[static_cast<size_t>(rival)];
  decision.threshold = options.tau;
  const std::string lead =
      "the best tool's cosine is ahead by " + FormatSignal(decision.margin);
  if (decision.margin < options.tau) {
    decision.outcome = Outcome::kRerank;
    decision.rule = "close-call";
    decision.reason = lead + ", less than tau " + FormatSignal(options.tau);
  } else if (input.twin_class[static_cast<size_t>(
                 input.candidates.front().tool)] !=
             input.twin_class[static_cast<size_t>(best)]) {
    decision.outcome = Outcome::kRerank;
    decision.rule = "disagreement";
    decision.reason = lead + ", but words (BM25) favour another tool";
  } else {
    decision.outcome = Outcome::kRoute;
    decision.rule = "margin";
    decision.reason = lead + ", at least tau " + FormatSignal(options.tau);
  }
  return decision;
}

}  // namespace nexus::route
