// Sampler: next token from a row of logits, under an optional grammar.
#ifndef NEXUS_LLM_SAMPLER_H_
#define NEXUS_LLM_SAMPLER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "nexus/base/result.h"
#include "nexus/llm/model.h"

namespace nexus::llm {

struct SamplerOptions {
  // 0: greedy, the lowest id among equals. Applied before top_k and top_p.
  float temperature = 0.0F;
  float top_p = 1.0F;
  int top_k = 0;  // 0: all
  uint32_t seed = 1;
  std::string grammar;  // GBNF with a rule "root"; empty: free text
};

// Thread-compatible. The model must outlive it.
// Same options and same logits: same tokens, on every machine.
class Sampler {
 public:
  static Result<std::unique_ptr<Sampler>> Create(const Model& model,
                                                 const SamplerOptions& options);
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Picks the next token and takes it into the grammar's state. With a grammar
  // the choice is first made without it, and the whole vocabulary is filtered
  // only when that doesn't fit. An end-of-generation token is returned only
  // when the grammar is complete; control tokens never. kInternal when nothing
  // fits or a logit isn't a number.
  Result<Token> Sample(std::span<const float> logits);

  // As Sample, but steers to the end: when the grammar is complete it returns
  // an end-of-generation token, else the most likely token among those that
  // leave fewer bytes to write than now. Used near the token limit, so that a
  // call is never truncated.
  Result<Token> SampleClosing(std::span<const float> logits);

  // SampleClosing ends the text within so many tokens from here, the
  // end-of-generation token included. Most often it needs far fewer.
  int ClosingTokens() const;

 private:
  struct Impl;
  Sampler();
  std::unique_ptr<Impl> impl_;
};

}  // namespace nexus::llm

#endif  // NEXUS_LLM_SAMPLER_H_
