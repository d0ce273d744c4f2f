#include "nexus/serve/answer_generator.h"

#include <algorithm>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/llm/sampler.h"
#include "nexus/serve/stop_filter.h"

namespace nexus::serve {

Result<GeneratedAnswer> GenerateAnswer(engine::Session& session,
                                       const llm::Model& model,
                                       const AnswerOptions& options) {
  NEXUS_ASSIGN_OR_RETURN(
      auto sampler,
      llm::Sampler::Create(model, {.temperature = options.temperature,
                                   .top_p = options.top_p,
                                   .seed = options.seed,
                                   .grammar = options.grammar}));
  const bool has_grammar = !options.grammar.empty();
  int limit = session.room() - 1;
  if (options.max_tokens > 0) limit = std::min(limit, options.max_tokens);
  GeneratedAnswer answer;
  StopFilter filter(options.stop);
  // Of tokens whose text is held back, or a part of it. What never goes out
  // has no row either.
  std::vector<llm::LogprobRow> held;
  const auto emit = [&](const std::string& text) {
    if (text.empty()) return;
    answer.text += text;
    if (options.on_text) options.on_text(text, held);
    held.clear();
  };
  answer.at_limit = limit <= 0;
  while (!answer.at_limit) {
    // Text of a grammar that is cut off is worth nothing.
    answer.closed_at_limit =
        answer.closed_at_limit ||
        (has_grammar && answer.sampled_tokens >= limit / 2 &&
         limit - answer.sampled_tokens <= sampler->ClosingTokens());
    NEXUS_ASSIGN_OR_RETURN(const llm::Token token,
                           answer.closed_at_limit
                               ? sampler->SampleClosing(session.logits())
                               : sampler->Sample(session.logits()));
    if (answer.sampled_tokens == 0) {
      answer.first_token_at = Clock::Monotonic().Now();
    }
    if (model.IsEndOfGeneration(token)) break;
    ++answer.sampled_tokens;
    if (options.top_logprobs >= 0) {
      held.push_back(
          llm::Logprobs(session.logits(), token, options.top_logprobs));
    }
    emit(filter.Feed(model.TokenText(token)));
    if (filter.stopped()) break;
    // Nothing is sampled behind the last one: its cell is the next turn's work.
    answer.at_limit = answer.sampled_tokens >= limit;
    if (answer.at_limit) break;
    NEXUS_RETURN_IF_ERROR(session.Step(token));
  }
  emit(filter.Flush());
  return answer;
}

}  // namespace nexus::serve
