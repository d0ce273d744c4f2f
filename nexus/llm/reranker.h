// Reranker: a second, slower look at the few candidates of a close call by a
// cross-encoder, which reads query and tool together. The interface that
// routing sees, and its implementation over llama.cpp for BERT-type encoders
// with a ranking head (pooling type RANK) in GGUF.
#ifndef NEXUS_LLM_RERANKER_H_
#define NEXUS_LLM_RERANKER_H_

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/result.h"

namespace nexus::llm {

// Thread-compatible unless an implementation says more.
class Reranker {
 public:
  virtual ~Reranker() = default;
  // One finite score a document, higher is better, on a scale of the model's
  // own. The committed one gives logits: above 0 means "this document rather
  // than none of them".
  virtual Result<std::vector<float>> Score(
      std::string_view query, std::span<const std::string> documents) = 0;
  // Names the model, for decisions and logs.
  virtual std::string name() const = 0;
  // Changes whenever scores would.
  virtual std::string fingerprint() const = 0;
};

struct RerankerOptions {
  std::string path;
  int threads = 0;  // 0: one
  // A pair is [CLS] query [SEP] document [SEP]: the query is cut to so many
  // tokens, the whole to so many. Those that the committed one was trained
  // with.
  int query_tokens = 48;
  int pair_tokens = 144;
};

// kNotFound, kCorruption, or kInvalidArgument when the file is no encoder or
// has no ranking head of one output.
Result<std::unique_ptr<Reranker>> LoadReranker(const RerankerOptions& options);

}  // namespace nexus::llm

#endif  // NEXUS_LLM_RERANKER_H_
