// Rotary position embedding (RoPE) on cached keys: take a key that was rotated
// to one position, bring it to another.
//
// Formula (RoFormer, Su et al. 2021, eq. 15): pair i of a head is rotated by
// position * base^(-2i/d). ggml computes these angles by a float32 recurrence
// (theta *= theta_scale), which differs from exact trigonometry by up to 1e-3
// rad at position 8,192; RopeCosSin reproduces that recurrence, since the
// queries that meet the key were rotated by it.
//
// Thread-safe: pure functions. All targets (SSE4 ... AVX-512) are chosen at run
// time; *Scalar is the reference that the tests hold the others to.
#ifndef NEXUS_SIMD_ROPE_ROTATE_H_
#define NEXUS_SIMD_ROPE_ROTATE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace nexus::simd {

enum class RopeLayout : uint32_t {
  kAdjacentPairs = 0,  // (x0, x1), (x2, x3), ...   "norm", Llama
  kHalfSplit = 1,      // (x0, x[d/2]), (x1, ...)   "neox", Qwen, Gemma
};

struct RopeParams {
  RopeLayout layout = RopeLayout::kHalfSplit;
  uint32_t rotated_dims = 0;  // per head; the rest passes through unchanged
  float base = 10000.0F;
  float freq_scale = 1.0F;  // linear scaling: 1 / factor
  // YaRN (Peng et al. 2023); ext_factor 0 turns it off. The magnitude factor is
  // *not* applied here: rotation keeps the length, so it stays in the key.
  float ext_factor = 0.0F;
  float beta_fast = 32.0F;
  float beta_slow = 1.0F;
  uint32_t original_context = 0;
  // Llama 3 style per-pair divisors, rotated_dims / 2 of them, or empty.
  std::vector<float> freq_factors;

  friend bool operator==(const RopeParams&, const RopeParams&) = default;
};

// Fills rotated_dims / 2 cosines and sines of the angles at `position`, by
// ggml's recurrence. cos and sin must hold that many.
void RopeCosSin(const RopeParams& params, int32_t position,
                std::span<float> cos, std::span<float> sin);

// One row of keys: head_count heads of head_dim elements. `in` and `out` may be
// the same. To undo a rotation pass the negated sines.
struct RopeRowShape {
  size_t head_count = 0;
  size_t head_dim = 0;
  size_t rotated_dims = 0;
  RopeLayout layout = RopeLayout::kHalfSplit;
};

void RotateRowF32(const RopeRowShape& shape, const float* cos, const float* sin,
                  const float* in, float* out);
// Float16 in and out (IEEE bits), float32 arithmetic, rounded once to nearest
// even.
void RotateRowF16(const RopeRowShape& shape, const float* cos, const float* sin,
                  const uint16_t* in, uint16_t* out);
// Float16 in, float32 out: for compiling, where rounding twice would cost bits.
void RotateRowF16ToF32(const RopeRowShape& shape, const float* cos,
                       const float* sin, const uint16_t* in, float* out);

void RotateRowF32Scalar(const RopeRowShape& shape, const float* cos,
                        const float* sin, const float* in, float* out);
void RotateRowF16Scalar(const RopeRowShape& shape, const float* cos,
                        const float* sin, const uint16_t* in, uint16_t* out);

// Conversions, n elements.
void F16ToF32(const uint16_t* in, float* out, size_t n);
void F32ToF16(const float* in, uint16_t* out, size_t n);

// out[c * out_stride + t] = in[t * in_stride + c], 16-bit elements: the
// transposed V of caches without flash attention. Works in tiles, so that whole
// cache lines are read and written. Strides in elements.
void Transpose16(const uint16_t* in, size_t rows, size_t columns,
                 size_t in_stride, uint16_t* out, size_t out_stride);

}  // namespace nexus::simd

#endif  // NEXUS_SIMD_ROPE_ROTATE_H_
