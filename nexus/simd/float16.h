// IEEE 754 binary16, one element at a time: the reference for the vector
// versions and the way for what doesn't fill a vector.
//
// Both round to nearest, ties to even, keep subnormals and infinities, and make
// NaNs quiet, as the hardware's conversions do.
#ifndef NEXUS_SIMD_FLOAT16_H_
#define NEXUS_SIMD_FLOAT16_H_

#include <bit>
#include <cstdint>

namespace nexus::simd {

// Constants shared with the vector version in float16-inl.h; "F32" and "F16"
// say whose bits they are.
inline constexpr uint32_t kF32Infinity = 0x7F800000;
inline constexpr uint32_t kF32QuietBit = 0x00400000;
// The smallest float32 that rounds to a float16 infinity: 65520.
inline constexpr uint32_t kF32RoundsToInfinity = 0x477FF000;
inline constexpr uint32_t kF32SmallestNormalF16 = 0x38800000;  // 2^-14
// Adding 0.5 lines the float32 mantissa up with float16's subnormals: its unit
// in the last place is 2^-24, the smallest of them.
inline constexpr uint32_t kF32Half = 0x3F000000;
inline constexpr uint32_t kF16Infinity = 0x7C00;
inline constexpr uint32_t kF16QuietNan = 0x7E00;
inline constexpr int kMantissaShift = 23 - 10;
inline constexpr uint32_t kExponentShift = (127U - 15U) << 23;

inline float F16BitsToF32(uint16_t half) {
  const uint32_t sign = (half & 0x8000U) << 16;
  const uint32_t magnitude = half & 0x7FFFU;
  uint32_t bits = magnitude << kMantissaShift;
  if (magnitude >= kF16Infinity) {
    bits |= kF32Infinity;
    if (magnitude > kF16Infinity) bits |= kF32QuietBit;
  } else if (magnitude < 0x0400U) {
    // Zero or subnormal: read as 2^-14 + mantissa, take 2^-14 away (exact).
    bits |= kF32SmallestNormalF16;
    bits = std::bit_cast<uint32_t>(std::bit_cast<float>(bits) -
                                   std::bit_cast<float>(kF32SmallestNormalF16));
  } else {
    bits += kExponentShift;
  }
  return std::bit_cast<float>(bits | sign);
}

inline uint16_t F32ToF16Bits(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  uint32_t half;
  if (magnitude > kF32Infinity) {
    half = kF16QuietNan | (magnitude >> kMantissaShift & 0x03FFU);
  } else if (magnitude >= kF32RoundsToInfinity) {
    half = kF16Infinity;
  } else if (magnitude < kF32SmallestNormalF16) {
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) +
                                   std::bit_cast<float>(kF32Half)) -
           kF32Half;
  } else {
    const uint32_t odd = magnitude >> kMantissaShift & 1U;
    half = (magnitude - kExponentShift + 0x0FFFU + odd) >> kMantissaShift;
  }
  return static_cast<uint16_t>(half | (bits >> 16 & 0x8000U));
}

}  // namespace nexus::simd

#endif  // NEXUS_SIMD_FLOAT16_H_
