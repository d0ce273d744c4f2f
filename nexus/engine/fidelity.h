// Fidelity: how far a trial's next-token distributions are from full prefill's.
//
// The reference generates tokens greedily behind a full prefill; the trial is
// fed the same tokens. At each position KL(reference || trial) is taken over
// the whole vocabulary, in nats, and whether both have the same most likely
// token.
#ifndef NEXUS_ENGINE_FIDELITY_H_
#define NEXUS_ENGINE_FIDELITY_H_

#include <span>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/engine/session.h"

namespace nexus::engine {

// log-softmax in double; `logits` and `log_probs` have vocab_size elements.
void LogSoftmax(std::span<const float> logits, std::span<float> log_probs);

// sum_t p(t) (log p(t) - log q(t)), never below zero by rounding.
double KlDivergence(std::span<const float> reference_log_probs,
                    std::span<const float> trial_log_probs);

struct FidelityReference {
  std::vector<llm::Token> tokens;             // greedy, one a position
  std::vector<std::vector<float>> log_probs;  // [position][vocab]
};

struct FidelityStats {
  std::vector<double> kl;  // one a position
  int top1_equal = 0;

  void Add(const FidelityStats& other);
  double KlMean() const;
  double Top1() const;
};

// The session must stand behind a prepared plan, its logits at hand; both leave
// it behind the generated tokens.
Result<FidelityReference> GenerateReference(Session& session, int token_count);
Result<FidelityStats> CompareWithReference(Session& session,
                                           const FidelityReference& reference);

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_FIDELITY_H_
