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
  float temperature = 0.0F;  // 0: greedy
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
  // the best unconstrained token is tried first and the whole vocabulary is
  // filtered only when it doesn't fit (filtering 150K tokens costs
  // milliseconds). An end-of-generation token is returned only when the grammar
  // is complete. kInternal when nothing fits.
  Result<Token> Sample(std::span<const float> logits);

  // As Sample, but steers to the shortest valid end: among the tokens the
  // grammar allows it prefers end of generation, then closing quotes, brackets
  // and braces, then the most likely. Used near the token limit, so that a call
  // is never truncated.
  Result<Token> SampleClosing(std::span<const float> logits);

 private:
  struct Impl;
  Sampler();
  std::unique_ptr<Impl> impl_;
};

}  // namespace nexus::llm

#endif  // NEXUS_LLM_SAMPLER_H_
