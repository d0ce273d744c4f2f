#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "gtest/gtest.h"

#include "nexus/simd/rope_rotate.h"

namespace nexus::simd {
namespace {

struct Angles {
  std::vector<float> cos;
  std::vector<float> sin;

  friend bool operator==(const Angles&, const Angles&) = default;
};

Angles AnglesAt(const RopeParams& params, int32_t position) {
  Angles angles{std::vector<float>(params.rotated_dims / 2),
                std::vector<float>(params.rotated_dims / 2)};
  RopeCosSin(params, position, angles.cos, angles.sin);
  return angles;
}

struct GoldenPair {
  size_t pair;
  float cos;
  float sin;
};

// Read back from ggml's CPU kernel (llama.cpp v0.4.0) at position 8192, by
// rotating the unit vector of each pair. Other math libraries may round cosf
// differently in the last place; exact trigonometry is 1e-4 and more away for
// these.
void ExpectGolden(const RopeParams& params,
                  const std::vector<GoldenPair>& golden) {
  const Angles angles = AnglesAt(params, 8192);
  for (const GoldenPair& expected : golden) {
    EXPECT_NEAR(angles.cos[expected.pair], expected.cos, 2e-7F)
        << "pair " << expected.pair;
    EXPECT_NEAR(angles.sin[expected.pair], expected.sin, 2e-7F)
        << "pair " << expected.pair;
  }
}

TEST(RopeCosSinTest, GivesTheAnglesOfGgmlForQwen25) {
  ExpectGolden({.rotated_dims = 64, .base = 1e6F},
               {{0, 0.292801827F, -0.956173182F},
                {1, -0.525058508F, -0.851066113F},
                {8, 0.127215251F, 0.991875112F},
                {16, -0.331621319F, 0.943412602F},
                {31, 0.999920428F, 0.0126147512F}});
}

TEST(RopeCosSinTest, GivesTheAnglesOfGgmlForSmolLm2) {
  ExpectGolden({.rotated_dims = 64, .base = 1e5F},
               {{0, 0.292801827F, -0.956173182F},
                {1, 0.479510218F, -0.877536297F},
                {8, -0.413692862F, 0.910416484F},
                {16, 0.716085672F, 0.698012352F},
                {31, 0.993117452F, 0.117122807F}});
}

TEST(RopeCosSinTest, GivesTheAnglesOfGgmlWithFrequencyFactors) {
  RopeParams params{.rotated_dims = 64, .base = 5e5F};
  for (int i = 0; i < 32; ++i) {
    params.freq_factors.push_back(
        static_cast<float>(1.0F + 0.23F * static_cast<float>(i)));
  }
  ExpectGolden(params, {{0, 0.292801827F, -0.956173182F},
                        {1, -0.863327801F, 0.504643559F},
                        {8, -0.0897630975F, 0.995963156F},
                        {16, -0.786227882F, 0.617936671F},
                        {31, 0.99999541F, 0.00303683523F}});
}

TEST(RopeCosSinTest, GivesTheAnglesOfGgmlWithLinearScaling) {
  ExpectGolden({.rotated_dims = 128, .base = 1e4F, .freq_scale = 0.125F},
               {{0, 0.987353623F, -0.158533379F},
                {1, 0.683412611F, 0.730032325F},
                {16, -0.293889672F, 0.955839336F},
                {32, -0.685699344F, -0.727884889F},
                {63, 0.993016601F, 0.117974542F}});
}

TEST(RopeCosSinTest, GivesTheAnglesOfGgmlWithYarn) {
  ExpectGolden({.rotated_dims = 128,
                .base = 1e6F,
                .freq_scale = 0.25F,
                .ext_factor = 1.0F,
                .original_context = 32768},
               {{0, 0.292801827F, -0.956173182F},
                {1, -0.562971771F, -0.826476097F},
                {16, 0.127366602F, 0.991855681F},
                {32, 0.224957719F, -0.974368513F},
                {63, 0.999996781F, 0.00254143239F}});
}

double LargestDifferenceFromExact(const RopeParams& params, int32_t position) {
  const Angles angles = AnglesAt(params, position);
  double largest = 0;
  for (size_t i = 0; i < angles.cos.size(); ++i) {
    const double exact = position * std::pow(static_cast<double>(params.base),
                                             -2.0 * static_cast<double>(i) /
                                                 params.rotated_dims);
    const double found = std::atan2(static_cast<double>(angles.sin[i]),
                                    static_cast<double>(angles.cos[i]));
    largest = std::max(largest, std::fabs(std::remainder(
                                    found - exact, 2 * std::numbers::pi)));
  }
  return largest;
}

// The size of the error that reproducing the recurrence avoids: 7.2e-4 rad with
// the first setting, 1.1e-4 with the second (Qwen2.5-0.5B).
TEST(RopeCosSinTest, DiffersFromExactTrigonometryByUpToAMilliradian) {
  const double base_1e4 =
      LargestDifferenceFromExact({.rotated_dims = 128, .base = 1e4F}, 8192);
  EXPECT_GT(base_1e4, 5e-4);
  EXPECT_LT(base_1e4, 1e-3);
  const double base_1e6 =
      LargestDifferenceFromExact({.rotated_dims = 64, .base = 1e6F}, 8192);
  EXPECT_GT(base_1e6, 8e-5);
  EXPECT_LT(base_1e6, 2e-4);
}

TEST(RopeCosSinTest, RotatesNothingAtPositionZero) {
  for (const float ext_factor : {0.0F, 1.0F}) {
    const Angles angles = AnglesAt({.rotated_dims = 20,
                                    .freq_scale = 0.5F,
                                    .ext_factor = ext_factor,
                                    .original_context = 4096},
                                   0);
    EXPECT_EQ(angles.cos, std::vector<float>(10, 1.0F));
    EXPECT_EQ(angles.sin, std::vector<float>(10, 0.0F));
  }
}

// Powers of two are exact, so these hold to the bit.
TEST(RopeCosSinTest, TreatsScaleAndFactorsAsStretchedPositions) {
  const Angles plain = AnglesAt({.rotated_dims = 64}, 1000);
  EXPECT_EQ(AnglesAt({.rotated_dims = 64, .freq_scale = 0.25F}, 4000), plain);
  EXPECT_EQ(AnglesAt({.rotated_dims = 64,
                      .freq_factors = std::vector<float>(32, 4.0F)},
                     4000),
            plain);
}

TEST(RopeCosSinTest, NegatesTheSinesForNegativePositions) {
  const Angles forward = AnglesAt({.rotated_dims = 64}, 777);
  Angles backward = AnglesAt({.rotated_dims = 64}, -777);
  for (float& value : backward.sin) value = -value;
  EXPECT_EQ(backward, forward);
}

TEST(RopeCosSinTest, KeepsFastPairsAndInterpolatesSlowOnesWithYarn) {
  const RopeParams yarn{.rotated_dims = 128,
                        .base = 1e6F,
                        .freq_scale = 0.25F,
                        .ext_factor = 1.0F,
                        .original_context = 32768};
  RopeParams kept = yarn;
  kept.ext_factor = 0.0F;
  kept.freq_scale = 1.0F;
  RopeParams interpolated = yarn;
  interpolated.ext_factor = 0.0F;
  const Angles angles = AnglesAt(yarn, 5000);
  const Angles kept_angles = AnglesAt(kept, 5000);
  const Angles interpolated_angles = AnglesAt(interpolated, 5000);
  // 32 turns in 32,768 tokens: 128 * ln(32768 / (32 * 2 pi)) / (2 ln 1e6)
  // = 23.6; one turn: 39.7. The bounds are rounded outwards.
  for (size_t i = 0; i <= 23; ++i) {
    EXPECT_EQ(angles.cos[i], kept_angles.cos[i]) << i;
  }
  for (size_t i = 24; i <= 39; ++i) {
    EXPECT_NE(angles.cos[i], kept_angles.cos[i]) << i;
    EXPECT_NE(angles.cos[i], interpolated_angles.cos[i]) << i;
  }
  for (size_t i = 40; i < 64; ++i) {
    EXPECT_EQ(angles.cos[i], interpolated_angles.cos[i]) << i;
  }
}

}  // namespace
}  // namespace nexus::simd
