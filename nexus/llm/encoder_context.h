// EncoderContext: token sequences through a BERT-type encoder, one pooled row
// each. What Embedder (a vector a text) and Reranker (a score a pair) share.
#ifndef NEXUS_LLM_ENCODER_CONTEXT_H_
#define NEXUS_LLM_ENCODER_CONTEXT_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/llm/model.h"

struct llama_context;

namespace nexus::llm {

// Thread-compatible.
class EncoderContext {
 public:
  using Tokens = std::vector<Token>;

  // How the rows of a sequence's tokens become one, as the file says.
  enum class Pooling {
    kVector,  // mean, first or last token: dimension() numbers
    kScore,   // a classifier's head on the first token: one number
    kOther,   // none, or a classifier of several classes
  };

  // kNotFound, kCorruption, kResourceExhausted, or kInvalidArgument when the
  // file is a decoder. `threads` 0: one, which is best for short texts.
  static Result<std::unique_ptr<EncoderContext>> Load(const std::string& path,
                                                      int threads);
  ~EncoderContext();
  EncoderContext(const EncoderContext&) = delete;
  EncoderContext& operator=(const EncoderContext&) = delete;

  const ModelInfo& info() const { return model_->info(); }
  Pooling pooling() const { return pooling_; }
  int pooling_number() const { return pooling_number_; }  // the engine's
  int dimension() const { return dimension_; }
  // Of one sequence, markers included.
  size_t max_tokens() const { return max_tokens_; }
  // What the encoder was trained to see at the ends: [CLS] and [SEP].
  std::optional<Token> first_marker() const { return first_marker_; }
  std::optional<Token> last_marker() const { return last_marker_; }

  // At most `limit` tokens of the text, without markers. "[SEP]" in it is five
  // letters, not a marker: texts come from users and servers.
  Result<Tokens> Tokenize(std::string_view text, size_t limit) const;

  // Calls `sink` with each sequence's number and its row, which is gone after
  // the call: dimension() numbers, or one (kScore). Sequences must have 1 to
  // max_tokens() tokens. Ends with the first error of `sink`.
  using Sink = std::function<Status(size_t sequence, const float* row)>;
  Status Encode(std::span<const Tokens> sequences, const Sink& sink);

 private:
  EncoderContext() = default;
  // Sequences that together fit a batch; the first of them is number `first`.
  Status EncodeBatch(std::span<const Tokens> batch, size_t first,
                     const Sink& sink);

  std::shared_ptr<const Model> model_;
  llama_context* context_ = nullptr;
  Pooling pooling_ = Pooling::kOther;
  int pooling_number_ = 0;
  int dimension_ = 0;
  size_t max_tokens_ = 0;
  std::optional<Token> first_marker_;
  std::optional<Token> last_marker_;
  // Arrays of a llama_batch, reused.
  std::vector<Token> tokens_;
  std::vector<Position> positions_;
  std::vector<int32_t> sequence_counts_;
  std::vector<SequenceId> sequence_ids_;
  std::vector<SequenceId*> sequences_;
  std::vector<int8_t> outputs_;
};

}  // namespace nexus::llm

#endif  // NEXUS_LLM_ENCODER_CONTEXT_H_
