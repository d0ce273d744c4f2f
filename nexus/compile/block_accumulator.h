// BlockAccumulator: the running mean of a block's keys and values over compile
// contexts, and how much each token's values varied.
//
// Keys are un-rotated to position 0 in float32 as they come in, so that
// contexts of different lengths can be averaged. The variation is kept as one
// number a layer and token (Welford's sum of squared deviations, over all
// channels of V): that is what the sensitivity needs, at a 128th of the memory
// of a variance per element.
//
//   sensitivity(token) = sum over layers of Var(V) / ||mean V||^2
//
// Only V: in the fidelity study keys added nothing to the ranking.
//
// A stored block can be taken up again and go on. The mean weighs at most
// kv::kSampleWeightCap samples; from there on older ones fade:
//
//   w    = min(samples so far + 1, cap)
//   M2   = M2 (1 - 1/w), once the cap is reached
//   mean = mean + (x - mean) / w
//   M2   = M2 + (x - old mean) . (x - new mean)
//   Var  = M2 / (w - 1)
#ifndef NEXUS_COMPILE_BLOCK_ACCUMULATOR_H_
#define NEXUS_COMPILE_BLOCK_ACCUMULATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/kv/block_reader.h"
#include "nexus/llm/kv_access.h"
#include "nexus/llm/rope_probe.h"

namespace nexus::compile {

struct AccumulatedBlock {
  // [layer] -> rows of the cache's element types, as BlockContents wants them.
  std::vector<std::vector<uint8_t>> k;
  std::vector<std::vector<uint8_t>> v;
  // One a token; empty after a single context, which shows no variation.
  std::vector<float> sensitivity;
  std::vector<std::vector<float>> v_m2;  // [layer] [token], empty with it
  int context_count = 0;
};

// Thread-compatible. `layout` and `rope` must outlive it.
class BlockAccumulator {
 public:
  BlockAccumulator(const llm::KvLayout& layout, const llm::RopeSpec& rope,
                   int token_count);

  // Goes on from a splice block. One without M2 (format 1) gives what its
  // sensitivity implies if each layer has an equal part in it. kIncompatible:
  // another layout; kInvalidArgument: a variant, or a mean of several contexts
  // with neither M2 nor sensitivity.
  static Result<BlockAccumulator> Restore(const llm::KvLayout& layout,
                                          const llm::RopeSpec& rope,
                                          const kv::KvBlock& block);

  int token_count() const { return token_count_; }
  int context_count() const { return context_count_; }

  // Rows of the next tokens of the current context, in order: a block may come
  // in pieces (sliding windows). The last token's rows end the context.
  // kInvalidArgument when they overrun the block or have other shapes.
  Status Add(const llm::KvRows& rows);
  // Rounds the means to the cache's types. Needs at least one whole context and
  // no half one.
  Result<AccumulatedBlock> Finish() const;

  // The unrounded means, [token, k_elements] and [token, v_elements].
  const std::vector<float>& KMean(size_t layer) const { return k_mean_[layer]; }
  const std::vector<float>& VMean(size_t layer) const { return v_mean_[layer]; }

 private:
  double VNorm(size_t layer, size_t token) const;

  const llm::KvLayout* layout_;
  const llm::RopeSpec* rope_;
  int token_count_;
  int context_count_ = 0;
  int next_token_ = 0;
  std::vector<std::vector<float>> k_mean_;  // [layer] [token, k_elements]
  std::vector<std::vector<float>> v_mean_;  // [layer] [token, v_elements]
  std::vector<std::vector<double>> v_m2_;   // [layer] [token]
};

}  // namespace nexus::compile

#endif  // NEXUS_COMPILE_BLOCK_ACCUMULATOR_H_
