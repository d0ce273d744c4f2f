#include "nexus/simd/rope_rotate.h"

#include <array>
#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "nexus/simd/float16.h"
#include "nexus/simd/target_test.h"

namespace nexus::simd {
namespace {

constexpr std::array<RopeLayout, 2> kLayouts = {RopeLayout::kAdjacentPairs,
                                                RopeLayout::kHalfSplit};

std::string Describe(const RopeRowShape& shape) {
  return std::to_string(shape.head_count) + " heads of " +
         std::to_string(shape.head_dim) + ", rotated " +
         std::to_string(shape.rotated_dims) +
         (shape.layout == RopeLayout::kHalfSplit ? " half-split" : " adjacent");
}

// Rotations, keys and room for results, all exactly as large as stated.
struct Fixture {
  Fixture(const RopeRowShape& shape, uint32_t seed)
      : size(shape.head_count * shape.head_dim),
        cos(shape.rotated_dims / 2),
        sin(shape.rotated_dims / 2),
        keys(size),
        keys16(size) {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> angle(-4.0F, 4.0F);
    std::normal_distribution<float> normal(0.0F, 3.0F);
    for (size_t i = 0; i < cos.size(); ++i) {
      const float a = angle(random);
      cos[i] = std::cos(a);
      sin[i] = std::sin(a);
    }
    for (size_t i = 0; i < size; ++i) {
      keys[i] = normal(random);
      keys16[i] = F32ToF16Bits(keys[i]);
    }
  }

  size_t size;
  GuardedArray<float> cos;
  GuardedArray<float> sin;
  GuardedArray<float> keys;
  GuardedArray<uint16_t> keys16;
};

// Pairs around every vector width, with and without dimensions behind them.
std::vector<RopeRowShape> Shapes() {
  std::vector<RopeRowShape> shapes;
  for (const RopeLayout layout : kLayouts) {
    for (size_t pairs = 0; pairs <= 66; ++pairs) {
      for (const size_t rest : {size_t{0}, size_t{1}, size_t{6}}) {
        shapes.push_back({.head_count = 1 + pairs % 3,
                          .head_dim = 2 * pairs + rest,
                          .rotated_dims = 2 * pairs,
                          .layout = layout});
      }
    }
    shapes.push_back({2, 64, 64, layout});
    shapes.push_back({8, 128, 128, layout});
    shapes.push_back({4, 80, 32, layout});
    shapes.push_back({0, 64, 64, layout});
  }
  return shapes;
}

TEST(RotateRowScalarTest, TurnsAQuarterInBothLayouts) {
  const std::array<float, 2> cos = {0.0F, 1.0F};
  const std::array<float, 2> sin = {1.0F, 0.0F};
  // Pair 0 turns by 90 degrees, pair 1 stays, the last two dims pass through.
  const std::array<float, 6> in = {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F};
  std::array<float, 6> out = {};

  RotateRowF32Scalar({1, 6, 4, RopeLayout::kAdjacentPairs}, cos.data(),
                     sin.data(), in.data(), out.data());
  EXPECT_EQ(out, (std::array<float, 6>{-2.0F, 1.0F, 3.0F, 4.0F, 5.0F, 6.0F}));

  RotateRowF32Scalar({1, 6, 4, RopeLayout::kHalfSplit}, cos.data(), sin.data(),
                     in.data(), out.data());
  EXPECT_EQ(out, (std::array<float, 6>{-3.0F, 2.0F, 1.0F, 4.0F, 5.0F, 6.0F}));
}

TEST(RotateRowScalarTest, AgreesWithDoublePrecision) {
  for (const RopeRowShape& shape : Shapes()) {
    Fixture f(shape, 5);
    std::vector<float> out(f.size);
    RotateRowF32Scalar(shape, f.cos.data(), f.sin.data(), f.keys.data(),
                       out.data());
    const size_t half = shape.rotated_dims / 2;
    for (size_t i = 0; i < f.size; ++i) {
      const size_t d = i % shape.head_dim;
      if (d >= shape.rotated_dims) {
        ASSERT_EQ(out[i], f.keys[i]) << Describe(shape);
        continue;
      }
      const bool adjacent = shape.layout == RopeLayout::kAdjacentPairs;
      const size_t pair = adjacent ? d / 2 : d % half;
      const bool is_first = adjacent ? d % 2 == 0 : d < half;
      const size_t distance = adjacent ? 1 : half;
      const double own = f.keys[i];
      const double other = f.keys[is_first ? i + distance : i - distance];
      const double expected = is_first
                                  ? own * f.cos[pair] - other * f.sin[pair]
                                  : other * f.sin[pair] + own * f.cos[pair];
      ASSERT_NEAR(out[i], expected, 2e-6) << Describe(shape);
    }
  }
}

TEST(RotateRowScalarTest, RoundsFloat16OnlyOnce) {
  const RopeRowShape shape{2, 64, 64, RopeLayout::kHalfSplit};
  Fixture f(shape, 6);
  std::vector<float> widened(f.size);
  F16ToF32(f.keys16.data(), widened.data(), f.size);
  std::vector<float> rotated(f.size);
  RotateRowF32Scalar(shape, f.cos.data(), f.sin.data(), widened.data(),
                     rotated.data());
  std::vector<uint16_t> rotated16(f.size);
  RotateRowF16Scalar(shape, f.cos.data(), f.sin.data(), f.keys16.data(),
                     rotated16.data());
  for (size_t i = 0; i < f.size; ++i) {
    ASSERT_EQ(rotated16[i], F32ToF16Bits(rotated[i]));
  }
}

class RotateRowTest : public TargetTest {};

// To the bit, on every target: products and sums are rounded apart.
TEST_P(RotateRowTest, F32EqualsScalar) {
  for (const RopeRowShape& shape : Shapes()) {
    Fixture f(shape, 7);
    std::vector<float> expected(f.size);
    RotateRowF32Scalar(shape, f.cos.data(), f.sin.data(), f.keys.data(),
                       expected.data());
    GuardedArray<float> out(f.size);
    RotateRowF32(shape, f.cos.data(), f.sin.data(), f.keys.data(), out.data());
    // In place last, since it overwrites the input.
    RotateRowF32(shape, f.cos.data(), f.sin.data(), f.keys.data(),
                 f.keys.data());
    for (size_t i = 0; i < f.size; ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(out[i]),
                std::bit_cast<uint32_t>(expected[i]))
          << Describe(shape) << " at " << i;
      ASSERT_EQ(out[i], f.keys[i]) << "in place, " << Describe(shape);
    }
  }
}

TEST_P(RotateRowTest, F16EqualsScalar) {
  for (const RopeRowShape& shape : Shapes()) {
    Fixture f(shape, 8);
    std::vector<uint16_t> expected(f.size);
    RotateRowF16Scalar(shape, f.cos.data(), f.sin.data(), f.keys16.data(),
                       expected.data());
    GuardedArray<uint16_t> out(f.size);
    RotateRowF16(shape, f.cos.data(), f.sin.data(), f.keys16.data(),
                 out.data());
    RotateRowF16(shape, f.cos.data(), f.sin.data(), f.keys16.data(),
                 f.keys16.data());
    for (size_t i = 0; i < f.size; ++i) {
      ASSERT_EQ(out[i], expected[i]) << Describe(shape) << " at " << i;
      ASSERT_EQ(f.keys16[i], expected[i]) << "in place, " << Describe(shape);
    }
  }
}

TEST_P(RotateRowTest, F16ToF32WidensFirst) {
  for (const RopeRowShape& shape : Shapes()) {
    Fixture f(shape, 9);
    std::vector<float> widened(f.size);
    F16ToF32(f.keys16.data(), widened.data(), f.size);
    std::vector<float> expected(f.size);
    RotateRowF32Scalar(shape, f.cos.data(), f.sin.data(), widened.data(),
                       expected.data());
    GuardedArray<float> out(f.size);
    RotateRowF16ToF32(shape, f.cos.data(), f.sin.data(), f.keys16.data(),
                      out.data());
    for (size_t i = 0; i < f.size; ++i) {
      ASSERT_EQ(out[i], expected[i]) << Describe(shape) << " at " << i;
    }
  }
}

TEST_P(RotateRowTest, AcceptsEveryMisalignment) {
  for (const RopeLayout layout : kLayouts) {
    const RopeRowShape shape{3, 64, 64, layout};
    constexpr size_t kSize = 3 * 64;
    Fixture f(shape, 10);
    std::vector<float> expected(kSize);
    RotateRowF32Scalar(shape, f.cos.data(), f.sin.data(), f.keys.data(),
                       expected.data());
    for (size_t shift = 0; shift < 16; ++shift) {
      std::vector<float> buffer(kSize + 16);
      std::copy_n(f.keys.data(), kSize, buffer.data() + shift);
      RotateRowF32(shape, f.cos.data(), f.sin.data(), buffer.data() + shift,
                   buffer.data() + shift);
      ASSERT_TRUE(
          std::equal(expected.begin(), expected.end(), buffer.data() + shift))
          << "shift " << shift;
    }
  }
}

TEST_P(RotateRowTest, IsUndoneByNegatedSines) {
  for (const RopeLayout layout : kLayouts) {
    const RopeRowShape shape{2, 80, 64, layout};
    Fixture f(shape, 11);
    std::vector<float> row(f.keys.begin(), f.keys.end());
    RotateRowF32(shape, f.cos.data(), f.sin.data(), row.data(), row.data());
    std::vector<float> negated(f.sin.begin(), f.sin.end());
    for (float& value : negated) value = -value;
    RotateRowF32(shape, f.cos.data(), negated.data(), row.data(), row.data());
    for (size_t i = 0; i < f.size; ++i) ASSERT_NEAR(row[i], f.keys[i], 4e-6F);
  }
}

// What re-anchoring a block relies on: un-rotate from one position and rotate
// to another is as good as rotating the raw key to the second.
TEST_P(RotateRowTest, MovesAKeyFromOnePositionToAnother) {
  for (const RopeLayout layout : kLayouts) {
    const RopeRowShape shape{2, 64, 64, layout};
    const RopeParams params{.layout = layout, .rotated_dims = 64, .base = 1e6F};
    Fixture f(shape, 12);
    std::vector<float> cos(32);
    std::vector<float> sin(32);
    RopeCosSin(params, 37, cos, sin);
    std::vector<float> moved(f.size);
    RotateRowF32(shape, cos.data(), sin.data(), f.keys.data(), moved.data());
    for (float& value : sin) value = -value;
    RotateRowF32(shape, cos.data(), sin.data(), moved.data(), moved.data());
    RopeCosSin(params, 4001, cos, sin);
    RotateRowF32(shape, cos.data(), sin.data(), moved.data(), moved.data());
    std::vector<float> direct(f.size);
    RotateRowF32(shape, cos.data(), sin.data(), f.keys.data(), direct.data());
    for (size_t i = 0; i < f.size; ++i) {
      ASSERT_NEAR(moved[i], direct[i], 6e-6F);
    }
  }
}

NEXUS_INSTANTIATE_TARGET_TEST(RotateRowTest);

}  // namespace
}  // namespace nexus::simd
