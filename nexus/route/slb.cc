#include "nexus/route/slb.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <numeric>

#include "nexus/base/check.h"
#include "nexus/simd/int8_scan.h"

namespace nexus::route {

void Slb::AlignedDelete::operator()(int8_t* rows) const {
  ::operator delete[](rows, std::align_val_t{kAlignBytes});
}

Slb::Slb(int dimension)
    : dimension_(dimension),
      stride_((static_cast<size_t>(dimension) + kAlignBytes - 1) / kAlignBytes *
              kAlignBytes) {
  NEXUS_CHECK(dimension > 0);
}

void Slb::Reserve(int row_count) {
  const size_t capacity = static_cast<size_t>(row_count);
  if (capacity <= capacity_rows_) return;
  std::unique_ptr<int8_t[], AlignedDelete> rows(static_cast<int8_t*>(
      ::operator new[](capacity* stride_, std::align_val_t{kAlignBytes})));
  if (!scales_.empty()) {
    std::memcpy(rows.get(), rows_.get(), scales_.size() * stride_);
  }
  rows_ = std::move(rows);
  capacity_rows_ = capacity;
  scales_.reserve(capacity);
  keys_.reserve(capacity);
}

int8_t* Slb::AppendRow(const Sha256Digest& key, float scale) {
  if (scales_.size() == capacity_rows_) {
    Reserve(std::max(64, 2 * row_count()));
  }
  int8_t* row = rows_.get() + scales_.size() * stride_;
  std::memset(row, 0, stride_);
  scales_.push_back(scale);
  keys_.push_back(key);
  return row;
}

bool Slb::Append(const Sha256Digest& key, std::span<const float> vector) {
  int8_t* row = AppendRow(key, 0.0F);
  if (vector.size() != static_cast<size_t>(dimension_) ||
      !std::all_of(vector.begin(), vector.end(),
                   [](float x) { return std::isfinite(x); })) {
    return false;
  }
  scales_.back() = simd::QuantizeInt8(vector.data(), vector.size(), row);
  return scales_.back() != 0;
}

void Slb::AppendRowOf(const Slb& other, int row) {
  NEXUS_CHECK(other.dimension_ == dimension_);
  int8_t* out =
      AppendRow(other.key(row), other.scales_[static_cast<size_t>(row)]);
  std::memcpy(out, other.row(row).data(), static_cast<size_t>(dimension_));
}

std::span<const int8_t> Slb::row(int row) const {
  NEXUS_DCHECK(row >= 0 && row < row_count());
  return {rows_.get() + static_cast<size_t>(row) * stride_,
          static_cast<size_t>(dimension_)};
}

size_t Slb::MemoryBytes() const {
  return capacity_rows_ * (stride_ + sizeof(float) + sizeof(Sha256Digest));
}

Result<std::vector<float>> Slb::ScoreAll(std::span<const float> query) const {
  if (query.size() != static_cast<size_t>(dimension_)) {
    return InternalError("the encoder gave a query vector of " +
                         std::to_string(query.size()) + " numbers, expected " +
                         std::to_string(dimension_));
  }
  for (size_t i = 0; i < query.size(); ++i) {
    if (!std::isfinite(query[i])) {
      return InternalError("the encoder gave a query vector whose number " +
                           std::to_string(i) + " isn't finite");
    }
  }
  std::vector<int8_t> quantised(query.size());
  const float query_scale =
      simd::QuantizeInt8(query.data(), query.size(), quantised.data());

  std::vector<int32_t> products(scales_.size());
  simd::Int8DotScan(rows_.get(), scales_.size(), query.size(), stride_,
                    quantised.data(), products.data());
  std::vector<float> scores(scales_.size());
  for (size_t r = 0; r < scores.size(); ++r) {
    scores[r] = static_cast<float>(products[r]) * scales_[r] * query_scale;
  }
  return scores;
}

Result<std::vector<SlbHit>> Slb::Search(std::span<const float> query,
                                        int top_k) const {
  NEXUS_ASSIGN_OR_RETURN(const std::vector<float> scores, ScoreAll(query));
  std::vector<SlbHit> hits(scores.size());
  for (size_t r = 0; r < scores.size(); ++r) {
    hits[r] = {static_cast<int>(r), scores[r]};
  }
  const size_t kept =
      std::min(hits.size(), static_cast<size_t>(std::max(top_k, 0)));
  std::partial_sort(hits.begin(), hits.begin() + static_cast<long>(kept),
                    hits.end(), [](const SlbHit& a, const SlbHit& b) {
                      return a.score != b.score ? a.score > b.score
                                                : a.row < b.row;
                    });
  hits.resize(kept);
  return hits;
}

}  // namespace nexus::route
