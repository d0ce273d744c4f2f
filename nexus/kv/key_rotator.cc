#include "nexus/kv/key_rotator.h"

#include <algorithm>
#include <span>

namespace nexus::kv {

KeyRotator::KeyRotator(const llm::RopeSpec& rope, llm::Position position,
                       int token_count) {
  std::vector<const simd::RopeParams*> distinct;
  for (const llm::LayerRope& layer : rope.layers) {
    const auto found = std::find_if(
        distinct.begin(), distinct.end(),
        [&](const simd::RopeParams* known) { return *known == layer.params; });
    table_of_layer_.push_back(static_cast<size_t>(found - distinct.begin()));
    if (found == distinct.end()) distinct.push_back(&layer.params);
    shapes_.push_back({.head_count = layer.head_count,
                       .head_dim = layer.head_dim,
                       .rotated_dims = layer.params.rotated_dims,
                       .layout = layer.params.layout});
  }
  for (const simd::RopeParams* params : distinct) {
    Table table;
    table.pairs = params->rotated_dims / 2;
    const size_t size = table.pairs * static_cast<size_t>(token_count);
    table.cos.resize(size);
    table.sin.resize(size);
    for (int token = 0; token < token_count; ++token) {
      const size_t begin = table.pairs * static_cast<size_t>(token);
      simd::RopeCosSin(*params, position + token,
                       std::span(table.cos).subspan(begin, table.pairs),
                       std::span(table.sin).subspan(begin, table.pairs));
    }
    table.negated_sin.resize(size);
    std::transform(table.sin.begin(), table.sin.end(),
                   table.negated_sin.begin(), [](float x) { return -x; });
    tables_.push_back(std::move(table));
  }
}

const float* KeyRotator::Row(const std::vector<float>& table, size_t layer,
                             int token) const {
  return table.data() +
         tables_[table_of_layer_[layer]].pairs * static_cast<size_t>(token);
}

void KeyRotator::Rotate(size_t layer, int token, const uint16_t* in,
                        uint16_t* out) const {
  const Table& table = tables_[table_of_layer_[layer]];
  simd::RotateRowF16(shapes_[layer], Row(table.cos, layer, token),
                     Row(table.sin, layer, token), in, out);
}

void KeyRotator::Rotate(size_t layer, int token, const float* in,
                        float* out) const {
  const Table& table = tables_[table_of_layer_[layer]];
  simd::RotateRowF32(shapes_[layer], Row(table.cos, layer, token),
                     Row(table.sin, layer, token), in, out);
}

void KeyRotator::Unrotate(size_t layer, int token, const uint16_t* in,
                          float* out) const {
  const Table& table = tables_[table_of_layer_[layer]];
  simd::RotateRowF16ToF32(shapes_[layer], Row(table.cos, layer, token),
                          Row(table.negated_sin, layer, token), in, out);
}

void KeyRotator::Unrotate(size_t layer, int token, const float* in,
                          float* out) const {
  const Table& table = tables_[table_of_layer_[layer]];
  simd::RotateRowF32(shapes_[layer], Row(table.cos, layer, token),
                     Row(table.negated_sin, layer, token), in, out);
}

size_t KeyRotator::byte_count() const {
  size_t floats = 0;
  for (const Table& table : tables_) {
    floats += table.cos.size() + table.sin.size() + table.negated_sin.size();
  }
  return floats * sizeof(float);
}

}  // namespace nexus::kv
