#include "nexus/calibrate/drift.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "nexus/kv/row_convert.h"

namespace nexus::calibrate {
namespace {

std::vector<double> Ranks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && values[order[end]] == values[order[begin]]) {
      ++end;
    }
    const double mean = static_cast<double>(begin + end - 1) / 2;
    for (size_t i = begin; i < end; ++i) ranks[order[i]] = mean;
    begin = end;
  }
  return ranks;
}

}  // namespace

Result<std::vector<float>> TokenDrift(const kv::KvBlock& block,
                                      const llm::KvRows& rows) {
  const size_t layer_count = block.layers().size();
  if (rows.token_count != block.token_count() || rows.v.size() != layer_count) {
    return InvalidArgumentError(
        "drift: cells of " + std::to_string(rows.token_count) + " tokens and " +
        std::to_string(rows.v.size()) + " layers for a block of " +
        std::to_string(block.token_count()) + " and " +
        std::to_string(layer_count));
  }
  std::vector<float> drift;
  std::vector<float> stored;
  std::vector<float> truth;
  for (int token = 0; token < block.token_count(); ++token) {
    double sum = 0;
    for (size_t layer = 0; layer < layer_count; ++layer) {
      const llm::KvLayerShape& shape = block.layers()[layer];
      stored.resize(shape.v_elements);
      block.ReadV(layer, token, 1, stored.data());
      truth.resize(shape.v_elements);
      kv::RowsToF32(shape.v_type,
                    rows.v[layer].data() +
                        block.VStrideBytes(layer) * static_cast<size_t>(token),
                    shape.v_elements, truth.data());
      double difference = 0;
      double norm = 0;
      for (size_t i = 0; i < shape.v_elements; ++i) {
        const double have = static_cast<double>(stored[i]);
        const double want = static_cast<double>(truth[i]);
        difference += (want - have) * (want - have);
        norm += have * have;
      }
      constexpr double kTinyNorm = 1e-12;
      sum += difference / std::max(norm, kTinyNorm);
    }
    drift.push_back(static_cast<float>(sum));
  }
  return drift;
}

Result<std::vector<float>> KVarianceProxy(const kv::KvBlock& block,
                                          std::span<const uint32_t> head_dims) {
  if (head_dims.size() != block.layers().size()) {
    return InvalidArgumentError(
        "K variance: head sizes of " + std::to_string(head_dims.size()) +
        " layers, block has " + std::to_string(block.layers().size()));
  }
  std::vector<float> proxy;
  std::vector<float> row;
  for (int token = 0; token < block.token_count(); ++token) {
    double sum = 0;
    size_t head_count = 0;
    for (size_t layer = 0; layer < head_dims.size(); ++layer) {
      const llm::KvLayerShape& shape = block.layers()[layer];
      row.resize(shape.k_elements);
      block.ReadK(layer, token, 1, row.data());
      const size_t dim = head_dims[layer];
      for (size_t head = 0; dim > 0 && (head + 1) * dim <= shape.k_elements;
           ++head, ++head_count) {
        double mean = 0;
        double square = 0;
        for (size_t i = head * dim; i < (head + 1) * dim; ++i) {
          const double value = static_cast<double>(row[i]);
          mean += value;
          square += value * value;
        }
        mean /= static_cast<double>(dim);
        sum += square / static_cast<double>(dim) - mean * mean;
      }
    }
    proxy.push_back(static_cast<float>(
        sum / static_cast<double>(std::max<size_t>(head_count, 1))));
  }
  return proxy;
}

double SpearmanRho(std::span<const double> a, std::span<const double> b) {
  if (a.size() != b.size() || a.size() < 3) return 0;
  const std::vector<double> rank_a = Ranks(a);
  const std::vector<double> rank_b = Ranks(b);
  const double mean = static_cast<double>(a.size() - 1) / 2;
  double covariance = 0;
  double variance_a = 0;
  double variance_b = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    covariance += (rank_a[i] - mean) * (rank_b[i] - mean);
    variance_a += (rank_a[i] - mean) * (rank_a[i] - mean);
    variance_b += (rank_b[i] - mean) * (rank_b[i] - mean);
  }
  const double scale = std::sqrt(variance_a * variance_b);
  return scale > 0 ? covariance / scale : 0;
}

double SpearmanRho(std::span<const float> a, std::span<const float> b) {
  const std::vector<double> wide_a(a.begin(), a.end());
  const std::vector<double> wide_b(b.begin(), b.end());
  return SpearmanRho(wide_a, wide_b);
}

}  // namespace nexus::calibrate
