// Each int8 is widened to int16 and multiplied by pairs into int32 (pmaddwd and
// its like): exact for every input, -128 included, unlike the
// unsigned-by-signed byte product, which saturates.
#include "nexus/simd/int8_scan.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nexus/simd/int8_scan.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace nexus::simd {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR  // no pairwise products in one-lane vectors

void Int8DotScanTarget(const int8_t* rows, size_t row_count, size_t columns,
                       size_t row_stride, const int8_t* query,
                       int32_t* scores) {
  Int8DotScanScalar(rows, row_count, columns, row_stride, query, scores);
}

#else

// Rows that share one load and widening of the query. Four accumulators also
// hide the latency of the multiply-add.
constexpr size_t kRowsAtOnce = 4;

// Four rows read side by side look like no stream to the CPU's prefetcher, so a
// large matrix asks for the next group itself: 100,000 rows of 384 take 4.8 ms
// instead of 11.9. In the caches it would only cost (250 rows: 9.3 us,
// not 8.2).
constexpr size_t kPrefetchAboveBytes = size_t{1} << 20;
constexpr size_t kCacheLineBytes = 64;

template <size_t kRows>
HWY_INLINE void DotRows(const int8_t* HWY_RESTRICT rows, size_t columns,
                        size_t row_stride, const int8_t* HWY_RESTRICT query,
                        int32_t* HWY_RESTRICT scores) {
  const hn::ScalableTag<int32_t> d32;
  const hn::Repartition<int16_t, decltype(d32)> d16;
  const hn::Rebind<int8_t, decltype(d16)> d8;
  const size_t lanes = hn::Lanes(d16);

  // Vectors of scalable targets can't be array elements, hence the names.
  auto even0 = hn::Zero(d32), even1 = even0, even2 = even0, even3 = even0;
  auto odd0 = even0, odd1 = even0, odd2 = even0, odd3 = even0;
  const int8_t* row0 = rows;
  const int8_t* row1 = kRows > 1 ? rows + row_stride : rows;
  const int8_t* row2 = kRows > 2 ? rows + 2 * row_stride : rows;
  const int8_t* row3 = kRows > 3 ? rows + 3 * row_stride : rows;

  size_t c = 0;
  for (; c + lanes <= columns; c += lanes) {
    const auto q = hn::PromoteTo(d16, hn::LoadU(d8, query + c));
    const auto widened = [&](const int8_t* row) HWY_ATTR {
      return hn::PromoteTo(d16, hn::LoadU(d8, row + c));
    };
    even0 = hn::ReorderWidenMulAccumulate(d32, widened(row0), q, even0, odd0);
    if constexpr (kRows == kRowsAtOnce) {
      even1 = hn::ReorderWidenMulAccumulate(d32, widened(row1), q, even1, odd1);
      even2 = hn::ReorderWidenMulAccumulate(d32, widened(row2), q, even2, odd2);
      even3 = hn::ReorderWidenMulAccumulate(d32, widened(row3), q, even3, odd3);
    }
  }

  const auto finish = [&](const int8_t* row, auto even, auto odd) HWY_ATTR {
    int32_t sum = hn::GetLane(hn::SumOfLanes(d32, hn::Add(even, odd)));
    // Shorter than a vector; loading a whole one would read beyond the row.
    for (size_t i = c; i < columns; ++i) {
      sum += static_cast<int32_t>(row[i]) * query[i];
    }
    return sum;
  };
  scores[0] = finish(row0, even0, odd0);
  if constexpr (kRows == kRowsAtOnce) {
    scores[1] = finish(row1, even1, odd1);
    scores[2] = finish(row2, even2, odd2);
    scores[3] = finish(row3, even3, odd3);
  }
}

void Int8DotScanTarget(const int8_t* rows, size_t row_count, size_t columns,
                       size_t row_stride, const int8_t* query,
                       int32_t* scores) {
  const size_t group_bytes = kRowsAtOnce * row_stride;
  const bool prefetch = row_count * row_stride > kPrefetchAboveBytes;
  size_t r = 0;
  for (; r + kRowsAtOnce <= row_count; r += kRowsAtOnce) {
    if (prefetch && r + 2 * kRowsAtOnce <= row_count) {
      const int8_t* next = rows + r * row_stride + group_bytes;
      for (size_t i = 0; i < group_bytes; i += kCacheLineBytes) {
        hwy::Prefetch(next + i);
      }
    }
    DotRows<kRowsAtOnce>(rows + r * row_stride, columns, row_stride, query,
                         scores + r);
  }
  for (; r < row_count; ++r) {
    DotRows<1>(rows + r * row_stride, columns, row_stride, query, scores + r);
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

const char* TargetNameOf() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace nexus::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nexus::simd {

HWY_EXPORT(Int8DotScanTarget);
HWY_EXPORT(TargetNameOf);

float QuantizeInt8(const float* in, size_t n, int8_t* out) {
  float max = 0.0F;
  bool finite = true;
  for (size_t i = 0; i < n; ++i) {
    finite = finite && std::isfinite(in[i]);
    max = std::max(max, std::fabs(in[i]));
  }
  const float scale = max / 127.0F;
  if (!finite || scale == 0.0F) {
    std::fill_n(out, n, int8_t{0});
    return 0.0F;
  }
  // In double: the inverse of a tiny float would overflow.
  const double inverse = 127.0 / static_cast<double>(max);
  for (size_t i = 0; i < n; ++i) {
    out[i] = static_cast<int8_t>(std::lrint(in[i] * inverse));
  }
  return scale;
}

void Int8DotScan(const int8_t* rows, size_t row_count, size_t columns,
                 size_t row_stride, const int8_t* query, int32_t* scores) {
  HWY_DYNAMIC_DISPATCH(Int8DotScanTarget)
  (rows, row_count, columns, row_stride, query, scores);
}

void Int8DotScanScalar(const int8_t* rows, size_t row_count, size_t columns,
                       size_t row_stride, const int8_t* query,
                       int32_t* scores) {
  for (size_t r = 0; r < row_count; ++r) {
    int32_t sum = 0;
    for (size_t c = 0; c < columns; ++c) {
      sum += static_cast<int32_t>(rows[r * row_stride + c]) * query[c];
    }
    scores[r] = sum;
  }
}

std::string Int8ScanTargetName() {
  return HWY_DYNAMIC_DISPATCH(TargetNameOf)();
}

}  // namespace nexus::simd
#endif  // HWY_ONCE
