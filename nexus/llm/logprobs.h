// Log probabilities of tokens, as APIs report them: of the model's own
// distribution, softmax(logits), before temperature, top_p and any grammar.
#ifndef NEXUS_LLM_LOGPROBS_H_
#define NEXUS_LLM_LOGPROBS_H_

#include <span>
#include <vector>

#include "nexus/llm/model.h"

namespace nexus::llm {

struct TokenLogprob {
  Token token = -1;
  double logprob = 0;  // natural
};

struct LogprobRow {
  TokenLogprob sampled;
  std::vector<TokenLogprob> top;  // most likely first, the lower id of equals
};

// `sampled` must be an index of `logits`, none of which is NaN. At most as many
// in `top` as there are logits.
LogprobRow Logprobs(std::span<const float> logits, Token sampled, int top);

}  // namespace nexus::llm

#endif  // NEXUS_LLM_LOGPROBS_H_
