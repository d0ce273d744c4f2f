// Embedder: text -> unit vector. The interface that routing sees, and its
// implementation over llama.cpp for BERT-type encoders in GGUF.
#ifndef NEXUS_LLM_EMBEDDER_H_
#define NEXUS_LLM_EMBEDDER_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nexus/base/result.h"

namespace nexus::llm {

enum class TextRole { kQuery, kDocument };

// Thread-compatible unless an implementation says more.
class Embedder {
 public:
  virtual ~Embedder() = default;
  virtual int dimension() const = 0;
  // Changes whenever vectors would: part of an index's fingerprint.
  virtual std::string fingerprint() const = 0;
  // One L2-normalised vector a text. Texts longer than the encoder's context
  // are cut; empty text gives the embedding of the empty sequence.
  virtual Result<std::vector<std::vector<float>>> Embed(
      std::span<const std::string> texts, TextRole role) = 0;
};

struct EncoderOptions {
  std::string path;
  int threads = 0;  // 0: one, which is best for short texts
  // nomic-embed-text wants "search_query: " and "search_document: "; empty for
  // MiniLM. Unset: guessed from the architecture.
  std::string query_prefix;
  std::string document_prefix;
};

// kNotFound, kCorruption, or kInvalidArgument when the file is a decoder.
Result<std::unique_ptr<Embedder>> LoadEncoder(const EncoderOptions& options);

}  // namespace nexus::llm

#endif  // NEXUS_LLM_EMBEDDER_H_
