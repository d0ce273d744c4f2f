#include "nexus/route/slb.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <new>
#include <numeric>

#include "nexus/base/check.h"
#include "nexus/simd/int8_scan.h"
#include "nexus/simd/sign_scan.h"

namespace nexus::route {
namespace {

// Rows multiplied at once. Enough that a large matrix is still prefetched, few
// enough that the products stay in the caches.
constexpr size_t kBlockRows = 4096;
// Survivors are copied side by side first, as many as the first-level cache
// holds: the scan has a cost a call and wants rows in a row.
constexpr size_t kGatherRows = 32;

bool Better(const SlbHit& a, const SlbHit& b) {
  return a.score != b.score ? a.score > b.score : a.row < b.row;
}

// The best k hits of those offered, best first.
class TopHits {
 public:
  explicit TopHits(size_t k) : k_(k) { hits_.reserve(k); }

  void Offer(const SlbHit& hit) {
    if (hits_.size() == k_) {
      if (k_ == 0 || !Better(hit, hits_.back())) return;
      hits_.pop_back();
    }
    hits_.insert(std::upper_bound(hits_.begin(), hits_.end(), hit, Better),
                 hit);
  }
  std::vector<SlbHit> Take() && { return std::move(hits_); }

 private:
  size_t k_;
  std::vector<SlbHit> hits_;
};

}  // namespace

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
  signs_.reserve(capacity * simd::SignWords(stride_));
  scales_.reserve(capacity);
  keys_.reserve(capacity);
}

int8_t* Slb::AppendRow(const Sha256Digest& key, float scale) {
  if (scales_.size() == capacity_rows_) {
    Reserve(std::max(64, 2 * row_count()));
  }
  int8_t* row = rows_.get() + scales_.size() * stride_;
  std::memset(row, 0, stride_);
  signs_.resize(signs_.size() + simd::SignWords(stride_));
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
  PackLastRow();
  return scales_.back() != 0;
}

void Slb::AppendRowOf(const Slb& other, int row) {
  NEXUS_CHECK(other.dimension_ == dimension_);
  int8_t* out =
      AppendRow(other.key(row), other.scales_[static_cast<size_t>(row)]);
  std::memcpy(out, other.row(row).data(), static_cast<size_t>(dimension_));
  const size_t words = simd::SignWords(stride_);
  std::copy_n(other.signs_.begin() +
                  static_cast<ptrdiff_t>(static_cast<size_t>(row) * words),
              words, signs_.end() - static_cast<ptrdiff_t>(words));
}

void Slb::PackLastRow() {
  const size_t last = scales_.size() - 1;
  const size_t words = simd::SignWords(stride_);
  simd::PackSigns(rows_.get() + last * stride_, stride_,
                  signs_.data() + last * words);
}

std::span<const int8_t> Slb::row(int row) const {
  NEXUS_DCHECK(row >= 0 && row < row_count());
  return {rows_.get() + static_cast<size_t>(row) * stride_,
          static_cast<size_t>(dimension_)};
}

size_t Slb::MemoryBytes() const {
  return capacity_rows_ *
         (stride_ + stride_ / 8 + sizeof(float) + sizeof(Sha256Digest));
}

Result<Slb::QuantisedQuery> Slb::Quantise(std::span<const float> query) const {
  if (query.size() != static_cast<size_t>(dimension_)) {
    return InternalError("the encoder gave a query vector of " +
                         std::to_string(query.size()) + " numbers, expected " +
                         std::to_string(dimension_));
  }
  QuantisedQuery out;
  out.values.resize(stride_);
  out.scale = simd::QuantizeInt8(query.data(), query.size(), out.values.data());
  // Zero for a vector of zeros, or one with a number that isn't finite.
  if (out.scale == 0) {
    for (size_t i = 0; i < query.size(); ++i) {
      if (!std::isfinite(query[i])) {
        return InternalError("the encoder gave a query vector whose number " +
                             std::to_string(i) + " isn't finite");
      }
    }
  }
  return out;
}

Result<std::vector<float>> Slb::ScoreAll(std::span<const float> query) const {
  NEXUS_ASSIGN_OR_RETURN(const QuantisedQuery quantised, Quantise(query));
  std::vector<int32_t> products(scales_.size());
  simd::Int8DotScan(rows_.get(), scales_.size(), stride_, stride_,
                    quantised.values.data(), products.data());
  std::vector<float> scores(scales_.size());
  for (size_t r = 0; r < scores.size(); ++r) {
    scores[r] = static_cast<float>(products[r]) * scales_[r] * quantised.scale;
  }
  return scores;
}

// Grows with the root of the row count: 10 sqrt(n) survivors held 99.5 % or
// more of the true best ten, by fp32, at 515, 5,000 and 25,000 rows of
// embeddings (docs/routing.md has the table).
int Slb::DefaultSurvivors(int top_k) const {
  return std::max({128, 4 * std::max(top_k, 0),
                   static_cast<int>(10 * std::sqrt(row_count()))});
}

std::vector<int> Slb::Survivors(const QuantisedQuery& query,
                                size_t wanted) const {
  const size_t words = simd::SignWords(stride_);
  std::vector<uint64_t> signs(words);
  simd::PackSigns(query.values.data(), stride_, signs.data());
  std::vector<uint16_t> distances(scales_.size());
  simd::SignDistances(signs_.data(), scales_.size(), words, signs.data(),
                      distances.data());

  std::vector<uint32_t> rows_at(stride_ + 1);  // [distance]
  for (const uint16_t distance : distances) ++rows_at[distance];
  size_t limit = 0;
  size_t within = rows_at[0];
  while (within < wanted && limit < stride_) within += rows_at[++limit];

  // One more, which the loop writes to without a branch and never keeps.
  std::vector<int> rows(within + 1);
  size_t count = 0;
  for (size_t r = 0; r < distances.size(); ++r) {
    rows[count] = static_cast<int>(r);
    count += distances[r] <= limit;
  }
  rows.resize(within);
  return rows;
}

Result<std::vector<SlbHit>> Slb::Search(std::span<const float> query,
                                        const SlbSearchOptions& options) const {
  NEXUS_ASSIGN_OR_RETURN(const QuantisedQuery quantised, Quantise(query));
  const size_t kept =
      std::min(scales_.size(), static_cast<size_t>(std::max(options.top_k, 0)));
  TopHits best(kept);
  const auto offer = [&](size_t r, int32_t product) {
    best.Offer({static_cast<int>(r),
                static_cast<float>(product) * scales_[r] * quantised.scale});
  };
  const bool two_stage =
      options.scan == SlbScan::kTwoStage ||
      (options.scan == SlbScan::kAuto && row_count() >= kTwoStageRows);
  if (!two_stage) {
    std::vector<int32_t> products(std::min(scales_.size(), kBlockRows));
    for (size_t first = 0; first < scales_.size(); first += kBlockRows) {
      const size_t count = std::min(kBlockRows, scales_.size() - first);
      simd::Int8DotScan(rows_.get() + first * stride_, count, stride_, stride_,
                        quantised.values.data(), products.data());
      for (size_t i = 0; i < count; ++i) offer(first + i, products[i]);
    }
    return std::move(best).Take();
  }

  const int wanted = options.survivors > 0 ? options.survivors
                                           : DefaultSurvivors(options.top_k);
  const std::vector<int> rows =
      Survivors(quantised, std::max(kept, static_cast<size_t>(wanted)));
  std::vector<int8_t> gathered(kGatherRows * stride_);
  int32_t products[kGatherRows];
  for (size_t first = 0; first < rows.size(); first += kGatherRows) {
    const size_t count = std::min(kGatherRows, rows.size() - first);
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(gathered.data() + i * stride_,
                  rows_.get() + static_cast<size_t>(rows[first + i]) * stride_,
                  stride_);
    }
    simd::Int8DotScan(gathered.data(), count, stride_, stride_,
                      quantised.values.data(), products);
    for (size_t i = 0; i < count; ++i) {
      offer(static_cast<size_t>(rows[first + i]), products[i]);
    }
  }
  return std::move(best).Take();
}

}  // namespace nexus::route
