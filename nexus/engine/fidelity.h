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
  std::vector<char> top1;  // one a position: 1 where both agree

  double KlMean() const;
  double Top1() const;
};

// The session must stand behind a prepared plan, its logits at hand; both leave
// it behind all generated tokens but the last, whose own successor nobody asks
// for. Generation is greedy and stops at `max_tokens` or before the token that
// ends the turn (what follows one is no text of the model's). All positions are
// decoded in one batch, for the reference as for the trial: batches of another
// size round differently, and that difference belongs to the noise floor only.
Result<FidelityReference> GenerateReference(Session& session, int max_tokens);
// The same for tokens that were generated elsewhere.
Result<FidelityReference> ReferenceOf(Session& session,
                                      std::span<const llm::Token> tokens);
Result<FidelityStats> CompareWithReference(Session& session,
                                           const FidelityReference& reference);

// Brings the rest of the plan in as text, in batches of other sizes than a
// prefill's, so that other kernels and orders of addition are used: what this
// differs from Prepare by is the noise floor. The session must hold the plan's
// history.
Status PrefillInOddPieces(Session& session, const PromptPlan& plan);

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_FIDELITY_H_
