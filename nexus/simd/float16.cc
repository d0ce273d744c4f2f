#include "nexus/simd/float16.h"

#include <cstddef>

#include "nexus/simd/rope_rotate.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nexus/simd/float16.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#include "nexus/simd/float16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace nexus::simd {
namespace HWY_NAMESPACE {

void F16ToF32Target(const uint16_t* HWY_RESTRICT in, float* HWY_RESTRICT out,
                    size_t n) {
  const hn::ScalableTag<float> df;
  const hn::Rebind<uint16_t, decltype(df)> du16;
  const size_t lanes = hn::Lanes(df);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(VecF16ToF32(df, hn::LoadU(du16, in + i)), df, out + i);
  }
  for (; i < n; ++i) out[i] = F16BitsToF32(in[i]);
}

void F32ToF16Target(const float* HWY_RESTRICT in, uint16_t* HWY_RESTRICT out,
                    size_t n) {
  const hn::ScalableTag<float> df;
  const hn::Rebind<uint16_t, decltype(df)> du16;
  const size_t lanes = hn::Lanes(df);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(VecF32ToF16(df, hn::LoadU(df, in + i)), du16, out + i);
  }
  for (; i < n; ++i) out[i] = F32ToF16Bits(in[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace nexus::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nexus::simd {

HWY_EXPORT(F16ToF32Target);
HWY_EXPORT(F32ToF16Target);

void F16ToF32(const uint16_t* in, float* out, size_t n) {
  HWY_DYNAMIC_DISPATCH(F16ToF32Target)(in, out, n);
}

void F32ToF16(const float* in, uint16_t* out, size_t n) {
  HWY_DYNAMIC_DISPATCH(F32ToF16Target)(in, out, n);
}

}  // namespace nexus::simd
#endif  // HWY_ONCE
