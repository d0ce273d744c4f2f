// What the tests of KV access and of the RoPE probe share: a tiny model on
// disk, a context with its KvAccess, and rows moved by rotation.
#ifndef NEXUS_LLM_TESTING_KV_TEST_UTIL_H_
#define NEXUS_LLM_TESTING_KV_TEST_UTIL_H_

#include <memory>
#include <span>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/llm/kv_access.h"
#include "nexus/llm/rope_probe.h"
#include "nexus/llm/testing/tiny_model.h"

namespace nexus::llm::testing {

Result<std::shared_ptr<const Model>> LoadTinyModel(
    const TinyModelOptions& options);

// One thread: a tiny model has nothing to share out, and tests run side by
// side.
struct KvSession {
  std::unique_ptr<Context> context;
  std::unique_ptr<KvAccess> access;

  static Result<KvSession> Create(std::shared_ptr<const Model> model,
                                  ContextOptions options);
  // Decodes at the end of sequence 0, in one batch.
  Status Append(std::span<const Token> tokens);
  // The logits after appending a token to sequence 0.
  Result<std::vector<float>> LogitsAfter(Token token);
};

// `count` tokens that look like text: never special ones.
std::vector<Token> SomeTokens(int count, uint32_t seed = 1);

// Of two rows of logits.
double LargestDifference(std::span<const float> a, std::span<const float> b);

// Rows rotated from where they stand to `target`, in float32, rounded once.
KvRows MoveRows(const KvLayout& layout, const RopeSpec& rope,
                const KvRows& rows, Position target);

// K or V row-major, as float32.
std::vector<float> RowsToFloat(KvType type, const std::vector<uint8_t>& rows);

}  // namespace nexus::llm::testing

#endif  // NEXUS_LLM_TESTING_KV_TEST_UTIL_H_
