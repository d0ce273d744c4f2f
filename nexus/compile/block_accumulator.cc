#include "nexus/compile/block_accumulator.h"

#include <algorithm>
#include <string>

#include "nexus/kv/block_format.h"
#include "nexus/kv/key_rotator.h"
#include "nexus/kv/row_convert.h"

namespace nexus::compile {
namespace {

// Welford's step for one row: moves the mean, returns what the sum of squared
// deviations grows by.
double UpdateMean(const float* row, size_t elements, int count, float* mean) {
  const float weight = 1.0F / static_cast<float>(count);
  double m2 = 0;
  for (size_t i = 0; i < elements; ++i) {
    const float before = row[i] - mean[i];
    mean[i] += before * weight;
    m2 += static_cast<double>(before) * static_cast<double>(row[i] - mean[i]);
  }
  return m2;
}

double SquaredNorm(const float* row, size_t elements) {
  double sum = 0;
  for (size_t i = 0; i < elements; ++i) {
    sum += static_cast<double>(row[i]) * static_cast<double>(row[i]);
  }
  return sum;
}

}  // namespace

BlockAccumulator::BlockAccumulator(const llm::KvLayout& layout,
                                   const llm::RopeSpec& rope, int token_count)
    : layout_(&layout), rope_(&rope), token_count_(token_count) {
  const auto tokens = static_cast<size_t>(token_count);
  for (const llm::KvLayerShape& shape : layout.layers) {
    k_mean_.emplace_back(tokens * shape.k_elements);
    v_mean_.emplace_back(tokens * shape.v_elements);
    v_m2_.emplace_back(tokens);
  }
}

Result<BlockAccumulator> BlockAccumulator::Restore(const llm::KvLayout& layout,
                                                   const llm::RopeSpec& rope,
                                                   const kv::KvBlock& block) {
  if (!std::equal(layout.layers.begin(), layout.layers.end(),
                  block.layers().begin(), block.layers().end())) {
    return IncompatibleError("block " + block.path() +
                             ": rows of another shape than the cache's; "
                             "compile the tool for this model");
  }
  const int samples = block.metadata().context_count;
  const bool has_m2 = !block.VM2(0).empty();
  if (block.kind() != kv::BlockKind::kSplice ||
      (samples > 1 && !has_m2 && block.sensitivity().empty())) {
    return InvalidArgumentError(
        "block " + block.path() +
        ": can't take in samples: it is a variant, or its file doesn't say how "
        "its contexts varied; compile the tool again");
  }
  BlockAccumulator restored(layout, rope, block.token_count());
  restored.context_count_ = samples;
  const auto tokens = static_cast<size_t>(block.token_count());
  const double degrees = std::min(samples, kv::kSampleWeightCap) - 1;
  for (size_t layer = 0; layer < layout.layers.size(); ++layer) {
    block.ReadK(layer, 0, block.token_count(), restored.k_mean_[layer].data());
    block.ReadV(layer, 0, block.token_count(), restored.v_mean_[layer].data());
    for (size_t token = 0; token < tokens && samples > 1; ++token) {
      restored.v_m2_[layer][token] =
          has_m2 ? static_cast<double>(block.VM2(layer)[token])
                 : static_cast<double>(block.sensitivity()[token]) * degrees *
                       restored.VNorm(layer, token) /
                       static_cast<double>(layout.layers.size());
    }
  }
  return restored;
}

// The squared length of the mean V row.
double BlockAccumulator::VNorm(size_t layer, size_t token) const {
  const size_t elements = layout_->layers[layer].v_elements;
  return SquaredNorm(v_mean_[layer].data() + token * elements, elements);
}

Status BlockAccumulator::Add(const llm::KvRows& rows) {
  const auto row_count = static_cast<size_t>(rows.token_count);
  if (rows.token_count <= 0 || rows.token_count > token_count_ - next_token_ ||
      rows.k.size() != layout_->layers.size() ||
      rows.v.size() != layout_->layers.size()) {
    return InvalidArgumentError(
        "accumulator: rows of " + std::to_string(rows.token_count) +
        " tokens and " + std::to_string(rows.k.size()) + " layers at token " +
        std::to_string(next_token_) + " of " + std::to_string(token_count_) +
        " and " + std::to_string(layout_->layers.size()) + " layers");
  }
  for (size_t i = 0; i < layout_->layers.size(); ++i) {
    if (rows.k[i].size() != row_count * layout_->RowBytesK(i) ||
        rows.v[i].size() != row_count * layout_->RowBytesV(i)) {
      return InvalidArgumentError("accumulator: layer " + std::to_string(i) +
                                  " has rows of another shape");
    }
  }
  const kv::KeyRotator rotator(*rope_, rows.first_position, rows.token_count);
  const int count = std::min(context_count_ + 1, kv::kSampleWeightCap);
  const double keep =
      context_count_ < kv::kSampleWeightCap ? 1.0 : 1.0 - 1.0 / count;
  std::vector<float> row;
  for (size_t layer = 0; layer < layout_->layers.size(); ++layer) {
    const llm::KvLayerShape& shape = layout_->layers[layer];
    row.resize(std::max(shape.k_elements, shape.v_elements));
    for (int i = 0; i < rows.token_count; ++i) {
      const auto token = static_cast<size_t>(next_token_ + i);
      const uint8_t* k = rows.k[layer].data() +
                         layout_->RowBytesK(layer) * static_cast<size_t>(i);
      if (shape.k_type == llm::KvType::kF16) {
        rotator.Unrotate(layer, i, reinterpret_cast<const uint16_t*>(k),
                         row.data());
      } else {
        rotator.Unrotate(layer, i, reinterpret_cast<const float*>(k),
                         row.data());
      }
      UpdateMean(row.data(), shape.k_elements, count,
                 k_mean_[layer].data() + token * shape.k_elements);

      const uint8_t* v = rows.v[layer].data() +
                         layout_->RowBytesV(layer) * static_cast<size_t>(i);
      kv::RowsToF32(shape.v_type, v, shape.v_elements, row.data());
      v_m2_[layer][token] =
          v_m2_[layer][token] * keep +
          UpdateMean(row.data(), shape.v_elements, count,
                     v_mean_[layer].data() + token * shape.v_elements);
    }
  }
  next_token_ += rows.token_count;
  if (next_token_ == token_count_) {
    next_token_ = 0;
    ++context_count_;
  }
  return Status::Ok();
}

Result<AccumulatedBlock> BlockAccumulator::Finish() const {
  if (context_count_ == 0 || next_token_ != 0) {
    return InvalidArgumentError(
        "accumulator: " + std::to_string(context_count_) +
        " whole contexts and " + std::to_string(next_token_) +
        " tokens of another; one or more whole ones are needed");
  }
  AccumulatedBlock block;
  block.context_count = context_count_;
  for (size_t layer = 0; layer < layout_->layers.size(); ++layer) {
    block.k.push_back(
        kv::RowsFromF32(layout_->layers[layer].k_type, k_mean_[layer]));
    block.v.push_back(
        kv::RowsFromF32(layout_->layers[layer].v_type, v_mean_[layer]));
  }
  if (context_count_ < 2) return block;
  // An all-zero mean row (no real model has one) must not give infinity.
  constexpr double kTinyNorm = 1e-12;
  const double degrees = std::min(context_count_, kv::kSampleWeightCap) - 1;
  for (int i = 0; i < token_count_; ++i) {
    const auto token = static_cast<size_t>(i);
    double sum = 0;
    for (size_t layer = 0; layer < layout_->layers.size(); ++layer) {
      const double variance = std::max(0.0, v_m2_[layer][token] / degrees);
      sum += variance / std::max(VNorm(layer, token), kTinyNorm);
    }
    block.sensitivity.push_back(static_cast<float>(sum));
  }
  for (const std::vector<double>& m2 : v_m2_) {
    std::vector<float>& out = block.v_m2.emplace_back();
    for (const double value : m2) {
      out.push_back(static_cast<float>(std::max(0.0, value)));
    }
  }
  return block;
}

}  // namespace nexus::compile
