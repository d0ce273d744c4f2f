// Context: a KV cache over a model, and decoding into it.
#ifndef NEXUS_LLM_CONTEXT_H_
#define NEXUS_LLM_CONTEXT_H_

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/llm/model.h"

struct llama_context;

namespace nexus::llm {

enum class KvType : uint32_t { kF16 = 1, kF32 = 0 };  // ggml_type values

struct ContextOptions {
  int context_tokens = 4096;  // KV cells
  int batch_tokens = 2048;    // longest single decode call
  int ubatch_tokens = 512;
  int threads = 0;    // 0: one per core
  int sequences = 2;  // session and scratch, see docs/architecture.md
  // false: each sequence has `context_tokens` cells of its own, so that one
  // doesn't pay for another's in DecodeNext. Sequences then can't share cells.
  bool unified = true;
  // On CPU flash attention is far slower below 64 tokens a batch (fidelity
  // method page), so it is off unless a measurement says otherwise. With it off
  // V is stored transposed.
  bool flash_attention = false;
  KvType kv_type = KvType::kF16;
};

// Which rows of logits a decode keeps.
enum class Logits { kNone, kLast, kAll };

// A token that continues a sequence: position == PositionEnd(sequence).
struct NextToken {
  SequenceId sequence = 0;
  Position position = 0;
  Token token = 0;
};

// Owned by one thread (the inference thread); only `Cancel` may come from
// another. Keeps its Model alive.
class Context {
 public:
  // kResourceExhausted when the memory isn't there, kUnimplemented for a model
  // that has no decoder.
  static Result<std::unique_ptr<Context>> Create(
      std::shared_ptr<const Model> model, const ContextOptions& options);

  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const Model& model() const { return *model_; }
  std::shared_ptr<const Model> shared_model() const { return model_; }
  const ContextOptions& options() const { return options_; }

  // Appends `tokens` at `first` in `sequence`. Positions must continue the
  // sequence: first == PositionEnd(sequence). Splits into batches of at most
  // `options().batch_tokens`. kResourceExhausted when the cache is full (the
  // cells of this call are removed again, so the sequence is as before),
  // kCancelled.
  Status Decode(std::span<const Token> tokens, Position first,
                SequenceId sequence, Logits logits);

  // Decodes a token each of several sequences in one batch and keeps all rows
  // of logits. On failure the sequences are as before.
  Status DecodeNext(std::span<const NextToken> next);

  // Row `index` of the logits that the last decode kept: kLast has one row (0),
  // kAll and DecodeNext one a token. Valid until the next. Size: vocab_size.
  std::span<const float> LogitsRow(int index) const;

  // One past the last position in the sequence; 0 when it is empty.
  Position PositionEnd(SequenceId sequence) const;
  // Smallest position still held (sliding-window caches drop old cells), or 0.
  Position PositionBegin(SequenceId sequence) const;
  // Removes cells [begin, end); end < 0 means to the end. false: the memory
  // can't (recurrent state), nothing is changed.
  bool RemoveCells(SequenceId sequence, Position begin, Position end);
  // The cells [begin, end) of `from` also belong to `to`: no data is copied.
  void ShareCells(SequenceId from, SequenceId to, Position begin, Position end);
  void Clear();

  // Thread-safe. Makes a running or later Decode return kCancelled until Reset.
  void Cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool is_cancelled() const {
    return cancelled_.load(std::memory_order_relaxed);
  }
  void ResetCancel() { cancelled_.store(false, std::memory_order_relaxed); }

  llama_context* handle() const { return handle_; }

 private:
  Context() = default;

  std::shared_ptr<const Model> model_;
  ContextOptions options_;
  llama_context* handle_ = nullptr;
  std::atomic<bool> cancelled_{false};
  // One llama_decode of a piece that fits a batch.
  Status DecodeBatch(std::span<const Token> tokens, Position first,
                     SequenceId sequence, Logits logits);
  // Of batch_tokens_ and the other arrays.
  Status RunBatch();
  // Takes back what a failed Decode left from `first` on.
  Status Undo(Status status, SequenceId sequence, Position first);

  // Rows of the last Decode. They lie in the engine's own buffer, or here when
  // they come from several batches.
  std::vector<float> logits_;  // [row, vocab]
  int logits_rows_ = 0;
  bool logits_copied_ = false;
  // Reused from call to call; llama_batch wants arrays of all of these.
  std::vector<Token> batch_tokens_;
  std::vector<Position> batch_positions_;
  std::vector<int32_t> batch_sequence_counts_;
  std::vector<SequenceId> batch_owners_;
  std::vector<SequenceId*> batch_sequences_;
  std::vector<int8_t> batch_outputs_;
};

}  // namespace nexus::llm

#endif  // NEXUS_LLM_CONTEXT_H_
