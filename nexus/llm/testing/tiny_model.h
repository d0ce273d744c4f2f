// TinyModel: writes small random-weight GGUF models, so that tests run the real
// engine on every architecture that matters without downloading anything.
//
// The weights mean nothing, but they are spread so that logits differ clearly
// from token to token. Same options: same bytes, on every machine.
#ifndef NEXUS_LLM_TESTING_TINY_MODEL_H_
#define NEXUS_LLM_TESTING_TINY_MODEL_H_

#include <cstdint>
#include <string>

#include "nexus/base/status.h"

namespace nexus::llm::testing {

enum class TinyArch {
  kLlama,    // adjacent-pair RoPE
  kSmolLm3,  // the same, every fourth layer not rotated
  kQwen2,    // half-split RoPE, biases on Q, K and V
  kQwen3,    // half-split, norms on Q and K; head_dim is free here and in Gemma
  kGemma2,   // soft-capped logits, sliding window on every other layer
  kGemma3,   // sliding window, another RoPE base in window layers
  kStableLm,  // partial rotary: a quarter of each head, half-split
  kGlm4,      // partial rotary: half of each head, adjacent pairs
  kQwen2Vl,   // M-RoPE
  kGpt2,      // learned position embeddings
  kMamba,     // recurrent: no KV cells at all
  kLfm2,      // hybrid: every layer but the last is a short convolution
  kBert,      // encoder with mean pooling
};

enum class TinyScaling { kNone, kLinear, kYarn, kLlama3 };

struct TinyModelOptions {
  TinyArch arch = TinyArch::kLlama;
  TinyScaling scaling = TinyScaling::kNone;  // kLlama and kQwen2 only
  uint32_t layer_count = 3;
  uint32_t head_count = 4;
  uint32_t head_count_kv = 2;
  uint32_t head_dim = 16;
  uint32_t feed_forward = 96;
  uint32_t context_train = 4096;
  float rope_base = 10000.0F;
  // Gemma only. Layers il with il % pattern < pattern - 1 have the window.
  uint32_t sliding_window = 64;
  uint32_t sliding_window_pattern = 2;
  // kBert: scores instead of vectors, by a classifier of so many outputs.
  uint32_t rank_outputs = 0;
  uint32_t seed = 1;
  std::string chat_template;  // empty: none
};

// Byte-level BPE over all 256 bytes (bert: WordPiece over printable ASCII) plus
// "<s>", "</s>", "<|im_start|>", "<|im_end|>" as control tokens; "</s>" and
// "<|im_end|>" end a generation.
Status WriteTinyModel(const std::string& path, const TinyModelOptions& options);

}  // namespace nexus::llm::testing

#endif  // NEXUS_LLM_TESTING_TINY_MODEL_H_
