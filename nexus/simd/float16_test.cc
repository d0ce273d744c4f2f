#include "nexus/simd/float16.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "nexus/simd/rope_rotate.h"
#include "nexus/simd/target_test.h"

namespace nexus::simd {
namespace {

constexpr uint16_t kLargestFinite = 0x7BFF;

// The definition of the format, written without bit tricks.
double ValueOf(uint16_t half) {
  const int exponent = half >> 10 & 31;
  const int mantissa = half & 1023;
  const double sign = (half & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == 31) {
    return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                         : std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

std::vector<uint16_t> EveryHalf() {
  std::vector<uint16_t> halves(65536);
  for (size_t i = 0; i < halves.size(); ++i) {
    halves[i] = static_cast<uint16_t>(i);
  }
  return halves;
}

// Every float16, every midpoint between neighbours and the floats beside it,
// and arbitrary bits.
std::vector<float> InterestingFloats() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> floats;
  for (uint32_t h = 0; h < 0x7C00; ++h) {
    const auto low = static_cast<float>(ValueOf(static_cast<uint16_t>(h)));
    const auto high =
        h == kLargestFinite
            ? 65536.0F
            : static_cast<float>(ValueOf(static_cast<uint16_t>(h + 1)));
    const float middle = (low + high) / 2;
    for (const float value : {low, middle, std::nextafter(middle, 0.0F),
                              std::nextafter(middle, kInfinity)}) {
      floats.push_back(value);
      floats.push_back(-value);
    }
  }
  std::mt19937 random(4);
  for (int i = 0; i < 100'000; ++i) {
    floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  }
  for (const float value :
       {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(),
        std::numeric_limits<float>::denorm_min(),
        std::numeric_limits<float>::max(), 65519.99F, 65520.0F, 65536.0F}) {
    floats.push_back(value);
  }
  return floats;
}

TEST(F16BitsToF32Test, GivesTheValueOfEveryHalf) {
  for (const uint16_t half : EveryHalf()) {
    const float value = F16BitsToF32(half);
    const double expected = ValueOf(half);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << half;
    } else {
      ASSERT_EQ(static_cast<double>(value), expected) << half;
      ASSERT_EQ(std::signbit(value), (half & 0x8000) != 0) << half;
    }
  }
}

TEST(F32ToF16BitsTest, UndoesTheWidening) {
  for (const uint16_t half : EveryHalf()) {
    const bool is_nan = (half & 0x7FFF) > 0x7C00;
    ASSERT_EQ(F32ToF16Bits(F16BitsToF32(half)), half | (is_nan ? 0x0200 : 0));
  }
}

TEST(F32ToF16BitsTest, RoundsToTheNearestAndTiesToEven) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (uint32_t h = 0; h <= kLargestFinite; ++h) {
    const auto low = static_cast<uint16_t>(h);
    const auto high = static_cast<uint16_t>(h + 1);
    // Above the largest finite value the next step would be 65536.
    const double high_value = h == kLargestFinite ? 65536.0 : ValueOf(high);
    const auto middle = static_cast<float>((ValueOf(low) + high_value) / 2);
    ASSERT_EQ(F32ToF16Bits(middle), h % 2 == 0 ? low : high) << h;
    ASSERT_EQ(F32ToF16Bits(std::nextafter(middle, 0.0F)), low) << h;
    ASSERT_EQ(F32ToF16Bits(std::nextafter(middle, kInfinity)), high) << h;
    ASSERT_EQ(F32ToF16Bits(-middle), 0x8000 | (h % 2 == 0 ? low : high)) << h;
  }
}

TEST(F32ToF16BitsTest, KeepsInfinityNanAndTheSignOfZero) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(F32ToF16Bits(kInfinity), 0x7C00);
  EXPECT_EQ(F32ToF16Bits(-kInfinity), 0xFC00);
  EXPECT_EQ(F32ToF16Bits(1e10F), 0x7C00);
  EXPECT_EQ(F32ToF16Bits(-0.0F), 0x8000);
  EXPECT_EQ(F32ToF16Bits(std::numeric_limits<float>::denorm_min()), 0);
  const uint16_t nan = F32ToF16Bits(std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(std::isnan(F16BitsToF32(nan)));
  // A NaN whose payload lies in the bits that are dropped must not turn into an
  // infinity.
  EXPECT_EQ(F32ToF16Bits(std::bit_cast<float>(0x7F800001U)), 0x7E00);
}

class Float16Test : public TargetTest {};

TEST_P(Float16Test, WidensAllHalvesLikeTheScalar) {
  const std::vector<uint16_t> halves = EveryHalf();
  std::vector<float> floats(halves.size());
  F16ToF32(halves.data(), floats.data(), halves.size());
  for (size_t i = 0; i < halves.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(floats[i]),
              std::bit_cast<uint32_t>(F16BitsToF32(halves[i])))
        << "half " << halves[i];
  }
}

TEST_P(Float16Test, NarrowsLikeTheScalar) {
  const std::vector<float> floats = InterestingFloats();
  std::vector<uint16_t> halves(floats.size());
  F32ToF16(floats.data(), halves.data(), floats.size());
  for (size_t i = 0; i < floats.size(); ++i) {
    ASSERT_EQ(halves[i], F32ToF16Bits(floats[i])) << "value " << floats[i];
  }
}

TEST_P(Float16Test, StaysWithinTheArrays) {
  for (size_t n = 0; n <= 70; ++n) {
    GuardedArray<uint16_t> halves(n);
    GuardedArray<float> floats(n);
    for (size_t i = 0; i < n; ++i) halves[i] = static_cast<uint16_t>(i * 37);
    F16ToF32(halves.data(), floats.data(), n);
    GuardedArray<uint16_t> back(n);
    F32ToF16(floats.data(), back.data(), n);
    for (size_t i = 0; i < n; ++i) ASSERT_EQ(back[i], halves[i]) << n;
  }
}

NEXUS_INSTANTIATE_TARGET_TEST(Float16Test);

}  // namespace
}  // namespace nexus::simd
