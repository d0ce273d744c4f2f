#include "nexus/llm/testing/kv_test_util.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "nexus/base/check.h"
#include "nexus/base/test_util.h"
#include "nexus/simd/rope_rotate.h"

namespace nexus::llm::testing {

Result<std::shared_ptr<const Model>> LoadTinyModel(
    const TinyModelOptions& options) {
  // Until the process ends: the RoPE probe reads the file again.
  static const ScopedTempDir directory;
  static int count = 0;
  const std::string path =
      directory.File("tiny" + std::to_string(count++) + ".gguf");
  NEXUS_RETURN_IF_ERROR(WriteTinyModel(path, options));
  return Model::Load({.path = path});
}

Result<KvSession> KvSession::Create(std::shared_ptr<const Model> model,
                                    ContextOptions options) {
  options.threads = 1;
  KvSession session;
  NEXUS_ASSIGN_OR_RETURN(session.context,
                         Context::Create(std::move(model), options));
  NEXUS_ASSIGN_OR_RETURN(session.access,
                         KvAccess::Create(session.context.get()));
  return session;
}

Status KvSession::Append(std::span<const Token> tokens) {
  return context->Decode(tokens, context->PositionEnd(0), 0, Logits::kNone);
}

Result<std::vector<float>> KvSession::LogitsAfter(Token token) {
  NEXUS_RETURN_IF_ERROR(
      context->Decode({&token, 1}, context->PositionEnd(0), 0, Logits::kLast));
  const std::span<const float> row = context->LogitsRow(0);
  return std::vector<float>(row.begin(), row.end());
}

std::vector<Token> SomeTokens(int count, uint32_t seed) {
  std::vector<Token> tokens;
  uint32_t state = seed * 2654435761U + 12345U;
  for (int i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    tokens.push_back(static_cast<Token>((state >> 16) % 256));
  }
  return tokens;
}

double LargestDifference(std::span<const float> a, std::span<const float> b) {
  NEXUS_CHECK(a.size() == b.size());
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(static_cast<double>(a[i] - b[i])));
  }
  return largest;
}

std::vector<float> RowsToFloat(KvType type, const std::vector<uint8_t>& rows) {
  const size_t element = type == KvType::kF32 ? 4 : 2;
  std::vector<float> out(rows.size() / element);
  if (type == KvType::kF32) {
    std::memcpy(out.data(), rows.data(), rows.size());
  } else {
    simd::F16ToF32(reinterpret_cast<const uint16_t*>(rows.data()), out.data(),
                   out.size());
  }
  return out;
}

KvRows MoveRows(const KvLayout& layout, const RopeSpec& rope,
                const KvRows& rows, Position target) {
  KvRows moved = rows;
  moved.first_position = target;
  for (size_t layer = 0; layer < layout.layers.size(); ++layer) {
    const LayerRope& setting = rope.layers[layer];
    const size_t pairs = setting.params.rotated_dims / 2;
    if (pairs == 0) continue;
    const KvType type = layout.layers[layer].k_type;
    const size_t columns = layout.layers[layer].k_elements;
    std::vector<float> values = RowsToFloat(type, rows.k[layer]);
    const simd::RopeRowShape shape = {
        .head_count = setting.head_count,
        .head_dim = setting.head_dim,
        .rotated_dims = setting.params.rotated_dims,
        .layout = setting.params.layout};
    std::vector<float> cos(pairs);
    std::vector<float> sin(pairs);
    for (int token = 0; token < rows.token_count; ++token) {
      float* row = values.data() + static_cast<size_t>(token) * columns;
      simd::RopeCosSin(setting.params, rows.first_position + token, cos, sin);
      for (float& value : sin) value = -value;
      simd::RotateRowF32(shape, cos.data(), sin.data(), row, row);
      simd::RopeCosSin(setting.params, target + token, cos, sin);
      simd::RotateRowF32(shape, cos.data(), sin.data(), row, row);
    }
    if (type == KvType::kF32) {
      std::memcpy(moved.k[layer].data(), values.data(), moved.k[layer].size());
    } else {
      simd::F32ToF16(values.data(),
                     reinterpret_cast<uint16_t*>(moved.k[layer].data()),
                     values.size());
    }
  }
  return moved;
}

}  // namespace nexus::llm::testing
