// Transposing in tiles: a strip of kTileRows input rows is walked eight columns
// at a time, so that every output row receives one whole cache line (32
// elements) at once, and the strip's input lines stay in the first-level cache
// until their last eight columns are read. Element by element, each write would
// touch another line, and with a stride that is a power of two (a context of
// 4,096 cells) those lines would share a few cache sets and evict each other.
#include <algorithm>

#include "nexus/simd/rope_rotate.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nexus/simd/transpose16.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace nexus::simd {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr size_t kBlock = 8;      // 8 x 16 bits: one 128-bit vector
constexpr size_t kTileRows = 32;  // 32 x 16 bits: one cache line of output

void TransposeScalar(const uint16_t* in, size_t rows, size_t columns,
                     size_t in_stride, uint16_t* out, size_t out_stride) {
  for (size_t c = 0; c < columns; ++c) {
    for (size_t t = 0; t < rows; ++t) {
      out[c * out_stride + t] = in[t * in_stride + c];
    }
  }
}

#if HWY_TARGET != HWY_SCALAR

// Three rounds of interleaving double the run of elements from one input row
// that lie kBlock / 2 rows apart, until each vector is a column.
HWY_INLINE void TransposeBlock(const uint16_t* in, size_t in_stride,
                               uint16_t* out, size_t out_stride) {
  const hn::Full128<uint16_t> d;
  const auto row = [&](size_t t)
                       HWY_ATTR { return hn::LoadU(d, in + t * in_stride); };
  const auto a0 = row(0), a1 = row(1), a2 = row(2), a3 = row(3);
  const auto a4 = row(4), a5 = row(5), a6 = row(6), a7 = row(7);

  const auto b0 = hn::InterleaveLower(d, a0, a4);
  const auto b1 = hn::InterleaveUpper(d, a0, a4);
  const auto b2 = hn::InterleaveLower(d, a1, a5);
  const auto b3 = hn::InterleaveUpper(d, a1, a5);
  const auto b4 = hn::InterleaveLower(d, a2, a6);
  const auto b5 = hn::InterleaveUpper(d, a2, a6);
  const auto b6 = hn::InterleaveLower(d, a3, a7);
  const auto b7 = hn::InterleaveUpper(d, a3, a7);

  const auto c0 = hn::InterleaveLower(d, b0, b4);
  const auto c1 = hn::InterleaveUpper(d, b0, b4);
  const auto c2 = hn::InterleaveLower(d, b1, b5);
  const auto c3 = hn::InterleaveUpper(d, b1, b5);
  const auto c4 = hn::InterleaveLower(d, b2, b6);
  const auto c5 = hn::InterleaveUpper(d, b2, b6);
  const auto c6 = hn::InterleaveLower(d, b3, b7);
  const auto c7 = hn::InterleaveUpper(d, b3, b7);

  const auto store = [&](auto v, size_t c)
                         HWY_ATTR { hn::StoreU(v, d, out + c * out_stride); };
  store(hn::InterleaveLower(d, c0, c4), 0);
  store(hn::InterleaveUpper(d, c0, c4), 1);
  store(hn::InterleaveLower(d, c1, c5), 2);
  store(hn::InterleaveUpper(d, c1, c5), 3);
  store(hn::InterleaveLower(d, c2, c6), 4);
  store(hn::InterleaveUpper(d, c2, c6), 5);
  store(hn::InterleaveLower(d, c3, c7), 6);
  store(hn::InterleaveUpper(d, c3, c7), 7);
}

void TransposeTarget(const uint16_t* in, size_t rows, size_t columns,
                     size_t in_stride, uint16_t* out, size_t out_stride) {
  const size_t block_rows = rows - rows % kBlock;
  const size_t block_columns = columns - columns % kBlock;
  for (size_t tile = 0; tile < block_rows; tile += kTileRows) {
    const size_t tile_end = std::min(tile + kTileRows, block_rows);
    for (size_t c = 0; c < block_columns; c += kBlock) {
      for (size_t t = tile; t < tile_end; t += kBlock) {
        TransposeBlock(in + t * in_stride + c, in_stride,
                       out + c * out_stride + t, out_stride);
      }
    }
  }
  // The right edge, then the bottom edge with the corner.
  TransposeScalar(in + block_columns, block_rows, columns - block_columns,
                  in_stride, out + block_columns * out_stride, out_stride);
  TransposeScalar(in + block_rows * in_stride, rows - block_rows, columns,
                  in_stride, out + block_rows, out_stride);
}

#else  // HWY_TARGET == HWY_SCALAR: no 128-bit vectors

void TransposeTarget(const uint16_t* in, size_t rows, size_t columns,
                     size_t in_stride, uint16_t* out, size_t out_stride) {
  TransposeScalar(in, rows, columns, in_stride, out, out_stride);
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace nexus::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nexus::simd {

HWY_EXPORT(TransposeTarget);

void Transpose16(const uint16_t* in, size_t rows, size_t columns,
                 size_t in_stride, uint16_t* out, size_t out_stride) {
  HWY_DYNAMIC_DISPATCH(TransposeTarget)
  (in, rows, columns, in_stride, out, out_stride);
}

}  // namespace nexus::simd
#endif  // HWY_ONCE
