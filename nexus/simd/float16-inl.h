// Vector loads and stores of float16 as float32. Included once per target.
//
// Where the target has conversion instructions they are used; elsewhere Highway
// 1.0.3 emulates them by truncation and without infinities, so the arithmetic
// of float16.h is written out here in vectors.

// The toggling guard lets foreach_target.h include this file again.
#if defined(NEXUS_SIMD_FLOAT16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef NEXUS_SIMD_FLOAT16_INL_H_
#undef NEXUS_SIMD_FLOAT16_INL_H_
#else
#define NEXUS_SIMD_FLOAT16_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

#include "nexus/simd/float16.h"

HWY_BEFORE_NAMESPACE();
namespace nexus::simd {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Better x86 targets have lower bits; AVX2 is the first with F16C.
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || HWY_ARCH_ARM_A64
constexpr bool kHasF16Instructions = true;
#else
constexpr bool kHasF16Instructions = false;
#endif

template <class DF, class V16>
HWY_INLINE hn::Vec<DF> VecF16ToF32(DF df, V16 half) {
  if constexpr (kHasF16Instructions) {
    const hn::Rebind<hwy::float16_t, DF> df16;
    return hn::PromoteTo(df, hn::BitCast(df16, half));
  } else {
    const hn::RebindToUnsigned<DF> du;
    const auto wide = hn::PromoteTo(du, half);
    const auto sign = hn::ShiftLeft<16>(hn::And(wide, hn::Set(du, 0x8000U)));
    const auto magnitude = hn::And(wide, hn::Set(du, 0x7FFFU));
    const auto shifted = hn::ShiftLeft<kMantissaShift>(magnitude);
    const auto smallest = hn::Set(du, kF32SmallestNormalF16);

    const auto normal = hn::Add(shifted, hn::Set(du, kExponentShift));
    const auto subnormal =
        hn::BitCast(du, hn::Sub(hn::BitCast(df, hn::Or(shifted, smallest)),
                                hn::BitCast(df, smallest)));
    const auto infinity = hn::Or(shifted, hn::Set(du, kF32Infinity));
    const auto nan = hn::Or(infinity, hn::Set(du, kF32QuietBit));

    auto bits = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, 0x0400U)),
                               subnormal, normal);
    bits = hn::IfThenElse(hn::Eq(magnitude, hn::Set(du, kF16Infinity)),
                          infinity, bits);
    bits =
        hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, kF16Infinity)), nan, bits);
    return hn::BitCast(df, hn::Or(bits, sign));
  }
}

template <class DF>
HWY_INLINE hn::Vec<hn::Rebind<uint16_t, DF>> VecF32ToF16(DF df,
                                                         hn::Vec<DF> value) {
  const hn::Rebind<uint16_t, DF> du16;
  if constexpr (kHasF16Instructions) {
    const hn::Rebind<hwy::float16_t, DF> df16;
    return hn::BitCast(du16, hn::DemoteTo(df16, value));
  } else {
    const hn::RebindToUnsigned<DF> du;
    const hn::RebindToSigned<DF> di;
    const auto bits = hn::BitCast(du, value);
    const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFFU));
    const auto sign = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 0x8000U));
    const auto shifted = hn::ShiftRight<kMantissaShift>(magnitude);
    const auto one_half = hn::Set(du, kF32Half);

    const auto odd = hn::And(shifted, hn::Set(du, 1U));
    const auto normal = hn::ShiftRight<kMantissaShift>(hn::Add(
        hn::Sub(magnitude, hn::Set(du, kExponentShift - 0x0FFFU)), odd));
    const auto subnormal = hn::Sub(
        hn::BitCast(
            du, hn::Add(hn::BitCast(df, magnitude), hn::BitCast(df, one_half))),
        one_half);
    const auto nan = hn::Or(hn::And(shifted, hn::Set(du, 0x03FFU)),
                            hn::Set(du, kF16QuietNan));

    auto half =
        hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, kF32SmallestNormalF16)),
                       subnormal, normal);
    half = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, kF32RoundsToInfinity)),
                          half, hn::Set(du, kF16Infinity));
    half =
        hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, kF32Infinity)), nan, half);
    // Signed, since the narrowing saturates from there; all values fit.
    return hn::DemoteTo(du16, hn::BitCast(di, hn::Or(half, sign)));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace nexus::simd
HWY_AFTER_NAMESPACE();

#endif  // NEXUS_SIMD_FLOAT16_INL_H_
