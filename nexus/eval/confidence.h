// Confidence: how well a number that comes with a decision tells the right ones
// from the wrong ones. For gates: the router must know when not to answer.
#ifndef NEXUS_EVAL_CONFIDENCE_H_
#define NEXUS_EVAL_CONFIDENCE_H_

#include <span>
#include <vector>

namespace nexus::eval {

// The chance that a member of `positive` is above one of `negative`, ties
// counting half. 0.5 knows nothing. NaN-free; 0.5 when either side is empty.
double AreaUnderRoc(std::span<const double> positive,
                    std::span<const double> negative);

// The share of `negative` that is let through at the highest threshold that
// lets through at least `recall` of `positive`. 0 when either side is empty.
double FalseShareAtRecall(std::span<const double> positive,
                          std::span<const double> negative, double recall);

struct ScoredDecision {
  double confidence = 0;
  double weight = 1;  // of traffic
  bool right = false;
};

struct CoveragePoint {
  double coverage = 0;   // share of the traffic that is answered
  double risk = 0;       // share of the answered that is wrong
  double threshold = 0;  // answered: confidence of at least this
};

// The risk when only the most confident decisions are answered, at `points`
// coverages from 1 / points to 1. Decisions of equal confidence are answered
// together, so the coverage may come out higher than asked for. Empty without
// weight.
std::vector<CoveragePoint> RiskCoverage(std::vector<ScoredDecision> decisions,
                                        int points);

}  // namespace nexus::eval

#endif  // NEXUS_EVAL_CONFIDENCE_H_
