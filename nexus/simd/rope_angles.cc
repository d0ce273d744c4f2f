// The angles of ggml's CPU kernel, reproduced operation by operation in
// float32: any "better" arithmetic would disagree with the queries that meet
// these keys.
//
//   theta_scale = base^(-2/n)               one powf, rounded to float32
//   theta_0     = position,  theta_i+1 = theta_i * theta_scale   rounds each
//   time angle_i     = freq_scale * (theta_i / freq_factor_i)
//
// Each of the n/2 products adds half a unit in the last place, and
// theta_scale's own rounding is raised to the i-th power: relative errors near
// 1e-7 * i, which on an angle of thousands of radians is about 1e-3.
//
// YaRN (Peng et al. 2023, section 3.2) keeps the angle of pairs that turn often
// within the original context, interpolates the ones that turn rarely, and
// blends in between.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "nexus/base/check.h"
#include "nexus/simd/rope_rotate.h"

namespace nexus::simd {
namespace {

// Pairs below `low` keep their angle, pairs above `high` are interpolated.
struct YarnRamp {
  float low;
  float high;

  float KeepShare(size_t pair) const {
    const float y =
        (static_cast<float>(pair) - low) / std::max(0.001F, high - low);
    return 1.0F - std::min(1.0F, std::max(0.0F, y));
  }
};

// The (fractional) pair that turns `turns` times within the original context.
float YarnPairOfTurns(const RopeParams& params, float turns) {
  constexpr float kPi = std::numbers::pi_v<float>;
  const auto dims = static_cast<float>(params.rotated_dims);
  const auto context = static_cast<float>(params.original_context);
  return dims * std::log(context / (turns * 2 * kPi)) /
         (2 * std::log(params.base));
}

YarnRamp MakeYarnRamp(const RopeParams& params) {
  return {
      .low =
          std::max(0.0F, std::floor(YarnPairOfTurns(params, params.beta_fast))),
      .high = std::min(static_cast<float>(params.rotated_dims) - 1.0F,
                       std::ceil(YarnPairOfTurns(params, params.beta_slow)))};
}

}  // namespace

void RopeCosSin(const RopeParams& params, int32_t position,
                std::span<float> cos, std::span<float> sin) {
  const size_t pairs = params.rotated_dims / 2;
  NEXUS_CHECK(cos.size() >= pairs && sin.size() >= pairs);
  NEXUS_CHECK(params.freq_factors.empty() ||
              params.freq_factors.size() >= pairs);
  const bool yarn = params.ext_factor != 0.0F;
  const YarnRamp ramp = yarn ? MakeYarnRamp(params) : YarnRamp{0.0F, 0.0F};
  const float theta_scale =
      std::pow(params.base, -2.0F / static_cast<float>(params.rotated_dims));

  auto theta = static_cast<float>(position);
  for (size_t i = 0; i < pairs; ++i) {
    const float kept =
        params.freq_factors.empty() ? theta : theta / params.freq_factors[i];
    float angle = params.freq_scale * kept;
    if (yarn) {
      // Fused on purpose: compilers contract ggml's expression to exactly this
      // wherever the CPU has the instruction.
      const float mix = ramp.KeepShare(i) * params.ext_factor;
      angle = std::fma(angle, 1.0F - mix, kept * mix);
    }
    cos[i] = std::cos(angle);
    sin[i] = std::sin(angle);
    theta *= theta_scale;
  }
}

}  // namespace nexus::simd
