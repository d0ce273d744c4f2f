// An answer in words, or under the grammar of a response format.
#ifndef NEXUS_SERVE_ANSWER_GENERATOR_H_
#define NEXUS_SERVE_ANSWER_GENERATOR_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/engine/session.h"
#include "nexus/llm/logprobs.h"

namespace nexus::serve {

struct AnswerOptions {
  int max_tokens = 0;  // 0: as far as the context goes
  float temperature = 0.0F;
  float top_p = 1.0F;
  uint32_t seed = 1;
  std::vector<std::string> stop;
  std::string grammar;  // GBNF; empty: free text
  // Of how many likely tokens beside each sampled one the log probability is
  // kept; < 0: no log probabilities.
  int top_logprobs = -1;
  // Pieces in whole characters, stop strings left out; with the rows of the
  // tokens that a piece came with, each once.
  std::function<void(std::string_view, std::span<const llm::LogprobRow>)>
      on_text;
};

struct GeneratedAnswer {
  std::string text;
  bool at_limit = false;         // cut off
  bool closed_at_limit = false;  // a grammar's text, steered to its end
  int sampled_tokens = 0;
  std::chrono::nanoseconds first_token_at{0};  // Clock::Monotonic()
};

// The session must stand behind the assistant's opening, with its logits at
// hand. kCancelled when the session's context is cancelled.
Result<GeneratedAnswer> GenerateAnswer(engine::Session& session,
                                       const llm::Model& model,
                                       const AnswerOptions& options);

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_ANSWER_GENERATOR_H_
