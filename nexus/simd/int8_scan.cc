// Three ways to one exact sum, by instruction set:
//   AVX2      bytes times bytes with pairs added in 16 bits (pmaddubsw). The
//             sign of the query moves to the row, so |query| is the unsigned
//             side and a pair never saturates: 2 * 128 * 127 < 2^15.
//   VNNI      four bytes a step into 32 bits (vpdpbusd); the row is made
//             unsigned by adding 128, and 128 * sum(query) taken off again.
//   the rest  int8 widened to int16, multiplied by pairs into int32.
//
// Widening 16-bit sums to 32 bits costs as much as the product itself, so on
// AVX2 several steps are added in 16 bits first. How many is decided once a
// query: no row byte exceeds 127, so a lane that sees query bytes q_i stays
// within 127 * sum |q_i|. The steps taken are the most for which no lane can
// overflow, whatever the rows: exact for every input. Of 595 real queries in
// MiniLM's embedding 60 % allow one step and 38 % two.
#include "nexus/simd/int8_scan.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

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

// Calls `dot(std::integral_constant<size_t, rows at once>, first row)` over all
// rows.
template <class Dot>
HWY_INLINE void ForRowGroups(const int8_t* rows, size_t row_count,
                             size_t row_stride, Dot dot) {
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
    dot(std::integral_constant<size_t, kRowsAtOnce>(), r);
  }
  for (; r < row_count; ++r) dot(std::integral_constant<size_t, 1>(), r);
}

#if HWY_TARGET == HWY_AVX2

constexpr size_t kVectorBytes = 32;

// The most steps of a vector each, of 6, 4, 3, 2 and 1, that can be added in 16
// bits (see the head of the file).
size_t StepsIn16Bits(const int8_t* query, size_t vectors) {
  for (const size_t steps : {size_t{6}, size_t{4}, size_t{3}, size_t{2}}) {
    bool fits = true;
    for (size_t first = 0; first < vectors && fits; first += steps) {
      const size_t last = std::min(vectors, first + steps);
      const __m256i ones = _mm256_set1_epi8(1);
      __m256i sums = _mm256_setzero_si256();  // [lane] sum |q|, at most 6 * 256
      for (size_t v = first; v < last; ++v) {
        const __m256i q = _mm256_loadu_si256(
            reinterpret_cast<const __m256i*>(query + v * kVectorBytes));
        sums = _mm256_add_epi16(sums,
                                _mm256_maddubs_epi16(_mm256_abs_epi8(q), ones));
      }
      constexpr int16_t kMost = 32767 / 127;
      fits =
          _mm256_testz_si256(_mm256_cmpgt_epi16(sums, _mm256_set1_epi16(kMost)),
                             _mm256_set1_epi8(-1));
    }
    if (fits) return steps;
  }
  return 1;
}

template <size_t kRows, size_t kSteps>
HWY_INLINE void DotRowsBytes(const int8_t* HWY_RESTRICT rows, size_t columns,
                             size_t row_stride,
                             const int8_t* HWY_RESTRICT query,
                             int32_t* HWY_RESTRICT scores) {
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i sums[kRowsAtOnce];
  for (__m256i& sum : sums) sum = _mm256_setzero_si256();
  size_t c = 0;
  const auto add_steps = [&](auto steps) HWY_ATTR {
    __m256i part[kRowsAtOnce];
    HWY_UNROLL(6)
    for (size_t s = 0; s < decltype(steps)::value; ++s, c += kVectorBytes) {
      const __m256i q =
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(query + c));
      const __m256i magnitude = _mm256_abs_epi8(q);
      HWY_UNROLL(4)
      for (size_t r = 0; r < kRows; ++r) {
        const __m256i row = _mm256_loadu_si256(
            reinterpret_cast<const __m256i*>(rows + r * row_stride + c));
        const __m256i pairs =
            _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(row, q));
        part[r] = s == 0 ? pairs : _mm256_add_epi16(part[r], pairs);
      }
    }
    HWY_UNROLL(4)
    for (size_t r = 0; r < kRows; ++r) {
      sums[r] = _mm256_add_epi32(sums[r], _mm256_madd_epi16(part[r], ones));
    }
  };
  while (c + kSteps * kVectorBytes <= columns) {
    add_steps(std::integral_constant<size_t, kSteps>());
  }
  while (c + kVectorBytes <= columns) {
    add_steps(std::integral_constant<size_t, 1>());
  }
  if constexpr (kRows == kRowsAtOnce) {
    const __m256i halves =
        _mm256_hadd_epi32(_mm256_hadd_epi32(sums[0], sums[1]),
                          _mm256_hadd_epi32(sums[2], sums[3]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(scores),
                     _mm_add_epi32(_mm256_castsi256_si128(halves),
                                   _mm256_extracti128_si256(halves, 1)));
  } else {
    const hn::Full256<int32_t> d32;
    scores[0] = hn::GetLane(hn::SumOfLanes(d32, hn::Vec256<int32_t>{sums[0]}));
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t i = c; i < columns; ++i) {
      scores[r] += static_cast<int32_t>(rows[r * row_stride + i]) * query[i];
    }
  }
}

template <size_t kSteps>
HWY_NOINLINE void ScanSteps(const int8_t* rows, size_t row_count,
                            size_t columns, size_t row_stride,
                            const int8_t* query, int32_t* scores) {
  ForRowGroups(
      rows, row_count, row_stride, [&](auto at_once, size_t r) HWY_ATTR {
        DotRowsBytes<decltype(at_once)::value, kSteps>(
            rows + r * row_stride, columns, row_stride, query, scores + r);
      });
}

void Int8DotScanTarget(const int8_t* rows, size_t row_count, size_t columns,
                       size_t row_stride, const int8_t* query,
                       int32_t* scores) {
  switch (StepsIn16Bits(query, columns / kVectorBytes)) {
    case 6:
      return ScanSteps<6>(rows, row_count, columns, row_stride, query, scores);
    case 4:
      return ScanSteps<4>(rows, row_count, columns, row_stride, query, scores);
    case 3:
      return ScanSteps<3>(rows, row_count, columns, row_stride, query, scores);
    case 2:
      return ScanSteps<2>(rows, row_count, columns, row_stride, query, scores);
    default:
      return ScanSteps<1>(rows, row_count, columns, row_stride, query, scores);
  }
}

#elif HWY_TARGET == HWY_AVX3_DL

template <size_t kRows>
HWY_INLINE void DotRowsVnni(const int8_t* HWY_RESTRICT rows, size_t columns,
                            size_t row_stride, const int8_t* HWY_RESTRICT query,
                            uint32_t offset, int32_t* HWY_RESTRICT scores) {
  const __m512i bias = _mm512_set1_epi8(-128);
  __m512i sums[kRowsAtOnce];
  for (__m512i& sum : sums) sum = _mm512_setzero_si512();
  for (size_t c = 0; c < columns; c += 64) {
    // Lanes beyond the row read as zero, and their query bytes are zero.
    const __mmask64 mask =
        columns - c >= 64 ? ~__mmask64{0} : (__mmask64{1} << (columns - c)) - 1;
    const __m512i q = _mm512_maskz_loadu_epi8(mask, query + c);
    HWY_UNROLL(4)
    for (size_t r = 0; r < kRows; ++r) {
      const __m512i row =
          _mm512_maskz_loadu_epi8(mask, rows + r * row_stride + c);
      sums[r] = _mm512_dpbusd_epi32(sums[r], _mm512_xor_si512(row, bias), q);
    }
  }
  const hn::Full512<int32_t> d32;
  for (size_t r = 0; r < kRows; ++r) {
    // Unsigned, since both sides may wrap; their difference doesn't.
    const int32_t sum =
        hn::GetLane(hn::SumOfLanes(d32, hn::Vec512<int32_t>{sums[r]}));
    scores[r] = static_cast<int32_t>(static_cast<uint32_t>(sum) - offset);
  }
}

void Int8DotScanTarget(const int8_t* rows, size_t row_count, size_t columns,
                       size_t row_stride, const int8_t* query,
                       int32_t* scores) {
  uint32_t offset = 0;
  for (size_t c = 0; c < columns; ++c) {
    offset += static_cast<uint32_t>(128 * query[c]);
  }
  ForRowGroups(
      rows, row_count, row_stride, [&](auto at_once, size_t r) HWY_ATTR {
        DotRowsVnni<decltype(at_once)::value>(rows + r * row_stride, columns,
                                              row_stride, query, offset,
                                              scores + r);
      });
}

#else

void Int8DotScanTarget(const int8_t* rows, size_t row_count, size_t columns,
                       size_t row_stride, const int8_t* query,
                       int32_t* scores) {
  ForRowGroups(
      rows, row_count, row_stride, [&](auto at_once, size_t r) HWY_ATTR {
        DotRows<decltype(at_once)::value>(rows + r * row_stride, columns,
                                          row_stride, query, scores + r);
      });
}

#endif  // HWY_TARGET == HWY_AVX2

#endif  // HWY_TARGET == HWY_SCALAR

#if HWY_HAVE_FLOAT64 && HWY_TARGET != HWY_SCALAR

float QuantizeInt8Target(const float* in, size_t n, int8_t* out) {
  const hn::ScalableTag<double> d64;
  const hn::Rebind<float, decltype(d64)> d32;
  const hn::Rebind<int32_t, decltype(d64)> di32;
  const hn::Rebind<int8_t, decltype(d64)> di8;
  const size_t lanes = hn::Lanes(d64);
  const size_t whole = n / lanes * lanes;
  auto most = hn::Zero(d32);
  auto strange = hn::Zero(d32);  // stays zero while all numbers are finite
  for (size_t i = 0; i < whole; i += lanes) {
    const auto x = hn::LoadU(d32, in + i);
    most = hn::Max(most, hn::Abs(x));
    strange = hn::Add(strange, hn::Sub(x, x));
  }
  float max = hn::GetLane(hn::MaxOfLanes(d32, most));
  bool finite = hn::AllTrue(d32, hn::Eq(strange, hn::Zero(d32)));
  for (size_t i = whole; i < n; ++i) {
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
  const auto factor = hn::Set(d64, inverse);
  for (size_t i = 0; i < whole; i += lanes) {
    const auto x = hn::PromoteTo(d64, hn::LoadU(d32, in + i));
    const auto rounded = hn::DemoteTo(di32, hn::Round(hn::Mul(x, factor)));
    hn::StoreU(hn::DemoteTo(di8, rounded), di8, out + i);
  }
  for (size_t i = whole; i < n; ++i) {
    out[i] = static_cast<int8_t>(std::lrint(in[i] * inverse));
  }
  return scale;
}

#else

float QuantizeInt8Target(const float* in, size_t n, int8_t* out) {
  return QuantizeInt8Scalar(in, n, out);
}

#endif  // HWY_HAVE_FLOAT64 && HWY_TARGET != HWY_SCALAR

const char* TargetNameOf() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace nexus::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nexus::simd {

HWY_EXPORT(Int8DotScanTarget);
HWY_EXPORT(QuantizeInt8Target);
HWY_EXPORT(TargetNameOf);

float QuantizeInt8(const float* in, size_t n, int8_t* out) {
  return HWY_DYNAMIC_DISPATCH(QuantizeInt8Target)(in, n, out);
}

float QuantizeInt8Scalar(const float* in, size_t n, int8_t* out) {
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
