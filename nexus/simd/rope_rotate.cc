// One body for all element types and both layouts. Products and sums are
// rounded apart (no fused multiply-add), so that every target gives the same
// bits.
//
// A pair sits `half` apart (half-split) or side by side (adjacent); the angle
// of pair i is the i-th in both.
#include "nexus/simd/rope_rotate.h"

#include <algorithm>

#include "nexus/simd/float16.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nexus/simd/rope_rotate.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "nexus/simd/float16-inl.h"

#ifndef NEXUS_SIMD_ROPE_ROTATE_SCALAR_
#define NEXUS_SIMD_ROPE_ROTATE_SCALAR_
namespace nexus::simd {
namespace {

inline float ReadElement(const float* from) { return *from; }
inline float ReadElement(const uint16_t* from) { return F16BitsToF32(*from); }
inline void WriteElement(float value, float* to) { *to = value; }
inline void WriteElement(float value, uint16_t* to) {
  *to = F32ToF16Bits(value);
}

template <typename In, typename Out>
inline void RotatePair(float cos, float sin, const In* in0, const In* in1,
                       Out* out0, Out* out1) {
  const float x0 = ReadElement(in0);
  const float x1 = ReadElement(in1);
  WriteElement(x0 * cos - x1 * sin, out0);
  WriteElement(x0 * sin + x1 * cos, out1);
}

// The dimensions behind the rotated ones.
inline void PassThrough(const float* in, size_t n, float* out) {
  if (in != out) std::copy_n(in, n, out);
}
inline void PassThrough(const uint16_t* in, size_t n, uint16_t* out) {
  if (in != out) std::copy_n(in, n, out);
}
inline void PassThrough(const uint16_t* in, size_t n, float* out) {
  std::transform(in, in + n, out, F16BitsToF32);
}

template <typename In, typename Out>
void RotateRowScalar(const RopeRowShape& shape, const float* cos,
                     const float* sin, const In* in, Out* out) {
  const size_t half = shape.rotated_dims / 2;
  const bool adjacent = shape.layout == RopeLayout::kAdjacentPairs;
  for (size_t head = 0; head < shape.head_count; ++head) {
    for (size_t i = 0; i < half; ++i) {
      const size_t first = adjacent ? 2 * i : i;
      const size_t second = adjacent ? first + 1 : first + half;
      RotatePair(cos[i], sin[i], in + first, in + second, out + first,
                 out + second);
    }
    PassThrough(in + shape.rotated_dims, shape.head_dim - shape.rotated_dims,
                out + shape.rotated_dims);
    in += shape.head_dim;
    out += shape.head_dim;
  }
}

}  // namespace
}  // namespace nexus::simd
#endif  // NEXUS_SIMD_ROPE_ROTATE_SCALAR_

HWY_BEFORE_NAMESPACE();
namespace nexus::simd {
namespace HWY_NAMESPACE {

template <class DF>
HWY_INLINE hn::Vec<DF> LoadAsF32(DF df, const float* from) {
  return hn::LoadU(df, from);
}
template <class DF>
HWY_INLINE hn::Vec<DF> LoadAsF32(DF df, const uint16_t* from) {
  const hn::Rebind<uint16_t, DF> du16;
  return VecF16ToF32(df, hn::LoadU(du16, from));
}
template <class DF>
HWY_INLINE void StoreFromF32(DF df, hn::Vec<DF> v, float* to) {
  hn::StoreU(v, df, to);
}
template <class DF>
HWY_INLINE void StoreFromF32(DF df, hn::Vec<DF> v, uint16_t* to) {
  const hn::Rebind<uint16_t, DF> du16;
  hn::StoreU(VecF32ToF16(df, v), du16, to);
}

template <class DF>
HWY_INLINE void LoadPairs(DF df, const float* from, hn::Vec<DF>& first,
                          hn::Vec<DF>& second) {
  hn::LoadInterleaved2(df, from, first, second);
}
template <class DF>
HWY_INLINE void LoadPairs(DF df, const uint16_t* from, hn::Vec<DF>& first,
                          hn::Vec<DF>& second) {
  const hn::Rebind<uint16_t, DF> du16;
  hn::Vec<decltype(du16)> first16;
  hn::Vec<decltype(du16)> second16;
  hn::LoadInterleaved2(du16, from, first16, second16);
  first = VecF16ToF32(df, first16);
  second = VecF16ToF32(df, second16);
}
template <class DF>
HWY_INLINE void StorePairs(DF df, hn::Vec<DF> first, hn::Vec<DF> second,
                           float* to) {
  hn::StoreInterleaved2(first, second, df, to);
}
template <class DF>
HWY_INLINE void StorePairs(DF df, hn::Vec<DF> first, hn::Vec<DF> second,
                           uint16_t* to) {
  const hn::Rebind<uint16_t, DF> du16;
  hn::StoreInterleaved2(VecF32ToF16(df, first), VecF32ToF16(df, second), du16,
                        to);
}

template <typename In, typename Out>
HWY_INLINE void RotateHead(const RopeRowShape& shape, const float* cos,
                           const float* sin, const In* in, Out* out) {
  const hn::ScalableTag<float> df;
  const size_t lanes = hn::Lanes(df);
  const size_t half = shape.rotated_dims / 2;
  size_t i = 0;
  if (shape.layout == RopeLayout::kAdjacentPairs) {
    for (; i + lanes <= half; i += lanes) {
      const auto c = hn::LoadU(df, cos + i);
      const auto s = hn::LoadU(df, sin + i);
      hn::Vec<decltype(df)> x0;
      hn::Vec<decltype(df)> x1;
      LoadPairs(df, in + 2 * i, x0, x1);
      StorePairs(df, hn::Sub(hn::Mul(x0, c), hn::Mul(x1, s)),
                 hn::Add(hn::Mul(x0, s), hn::Mul(x1, c)), out + 2 * i);
    }
    for (; i < half; ++i) {
      RotatePair(cos[i], sin[i], in + 2 * i, in + 2 * i + 1, out + 2 * i,
                 out + 2 * i + 1);
    }
    return;
  }
  for (; i + lanes <= half; i += lanes) {
    const auto c = hn::LoadU(df, cos + i);
    const auto s = hn::LoadU(df, sin + i);
    const auto x0 = LoadAsF32(df, in + i);
    const auto x1 = LoadAsF32(df, in + i + half);
    StoreFromF32(df, hn::Sub(hn::Mul(x0, c), hn::Mul(x1, s)), out + i);
    StoreFromF32(df, hn::Add(hn::Mul(x0, s), hn::Mul(x1, c)), out + i + half);
  }
  for (; i < half; ++i) {
    RotatePair(cos[i], sin[i], in + i, in + i + half, out + i, out + i + half);
  }
}

template <typename In, typename Out>
HWY_INLINE void RotateHeads(const RopeRowShape& shape, const float* cos,
                            const float* sin, const In* in, Out* out) {
  for (size_t head = 0; head < shape.head_count; ++head) {
    RotateHead(shape, cos, sin, in, out);
    PassThrough(in + shape.rotated_dims, shape.head_dim - shape.rotated_dims,
                out + shape.rotated_dims);
    in += shape.head_dim;
    out += shape.head_dim;
  }
}

// The dispatch table takes no templates.
void RotateF32Target(const RopeRowShape& shape, const float* cos,
                     const float* sin, const float* in, float* out) {
  RotateHeads(shape, cos, sin, in, out);
}
void RotateF16Target(const RopeRowShape& shape, const float* cos,
                     const float* sin, const uint16_t* in, uint16_t* out) {
  RotateHeads(shape, cos, sin, in, out);
}
void RotateF16ToF32Target(const RopeRowShape& shape, const float* cos,
                          const float* sin, const uint16_t* in, float* out) {
  RotateHeads(shape, cos, sin, in, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace nexus::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nexus::simd {

HWY_EXPORT(RotateF32Target);
HWY_EXPORT(RotateF16Target);
HWY_EXPORT(RotateF16ToF32Target);

void RotateRowF32(const RopeRowShape& shape, const float* cos, const float* sin,
                  const float* in, float* out) {
  HWY_DYNAMIC_DISPATCH(RotateF32Target)(shape, cos, sin, in, out);
}

void RotateRowF16(const RopeRowShape& shape, const float* cos, const float* sin,
                  const uint16_t* in, uint16_t* out) {
  HWY_DYNAMIC_DISPATCH(RotateF16Target)(shape, cos, sin, in, out);
}

void RotateRowF16ToF32(const RopeRowShape& shape, const float* cos,
                       const float* sin, const uint16_t* in, float* out) {
  HWY_DYNAMIC_DISPATCH(RotateF16ToF32Target)(shape, cos, sin, in, out);
}

void RotateRowF32Scalar(const RopeRowShape& shape, const float* cos,
                        const float* sin, const float* in, float* out) {
  RotateRowScalar(shape, cos, sin, in, out);
}

void RotateRowF16Scalar(const RopeRowShape& shape, const float* cos,
                        const float* sin, const uint16_t* in, uint16_t* out) {
  RotateRowScalar(shape, cos, sin, in, out);
}

}  // namespace nexus::simd
#endif  // HWY_ONCE
