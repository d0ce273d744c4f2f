// Log probabilities as OpenAI's APIs write them.
#ifndef NEXUS_SERVE_LOGPROBS_JSON_H_
#define NEXUS_SERVE_LOGPROBS_JSON_H_

#include <functional>
#include <span>
#include <string>

#include "nexus/base/json.h"
#include "nexus/llm/logprobs.h"

namespace nexus::serve {

inline constexpr int kMaxTopLogprobs = 20;  // OpenAI's own limit

// An array with an entry a row: token, logprob, bytes, top_logprobs. Bytes that
// are no whole character show as U+FFFD in `token`; `bytes` has them as they
// are. What can't come at all has OpenAI's -9999.
Json LogprobsJson(std::span<const llm::LogprobRow> rows,
                  const std::function<std::string(llm::Token)>& text_of);

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_LOGPROBS_JSON_H_
