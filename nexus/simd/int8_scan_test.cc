#include "nexus/simd/int8_scan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "nexus/simd/target_test.h"

namespace nexus::simd {
namespace {

void FillRandom(std::mt19937& random, int least, GuardedArray<int8_t>& values) {
  std::uniform_int_distribution<int> any(least, 127);
  for (int8_t& value : values) value = static_cast<int8_t>(any(random));
}

TEST(Int8DotScanScalarTest, ComputesRowByRow) {
  const std::array<int8_t, 8> rows = {1, 2, 3, 99, -128, 0, 127, 99};
  const std::array<int8_t, 3> query = {4, 5, -6};
  std::array<int32_t, 2> scores = {};
  Int8DotScanScalar(rows.data(), 2, 3, 4, query.data(), scores.data());
  EXPECT_EQ(scores[0], 4 + 10 - 18);
  EXPECT_EQ(scores[1], -512 - 762);
}

class Int8DotScanTest : public TargetTest {};

TEST_P(Int8DotScanTest, RunsOnTheSelectedTarget) {
  EXPECT_EQ(Int8ScanTargetName(), hwy::TargetName(GetParam()));
}

// Lengths around every vector width, row counts around the rows taken at once,
// strides that leave gaps, all values that are allowed.
TEST_P(Int8DotScanTest, EqualsScalarAndReadsNothingBeyondTheRows) {
  std::mt19937 random(1);
  for (size_t columns = 0; columns <= 130; ++columns) {
    for (const size_t gap : {size_t{0}, size_t{1}, size_t{7}}) {
      const size_t stride = columns + gap;
      const size_t row_count = columns % 10;
      const size_t bytes =
          row_count == 0 ? 0 : (row_count - 1) * stride + columns;
      GuardedArray<int8_t> rows(bytes);
      GuardedArray<int8_t> query(columns);
      FillRandom(random, -127, rows);
      FillRandom(random, -128, query);
      GuardedArray<int32_t> scores(row_count);
      std::vector<int32_t> expected(row_count);
      Int8DotScan(rows.data(), row_count, columns, stride, query.data(),
                  scores.data());
      Int8DotScanScalar(rows.data(), row_count, columns, stride, query.data(),
                        expected.data());
      for (size_t r = 0; r < row_count; ++r) {
        ASSERT_EQ(scores[r], expected[r])
            << "columns " << columns << " stride " << stride << " row " << r;
      }
    }
  }
}

TEST_P(Int8DotScanTest, EqualsScalarAtEveryMisalignment) {
  constexpr size_t kRows = 5;
  constexpr size_t kColumns = 384;
  std::mt19937 random(2);
  GuardedArray<int8_t> rows(kRows * kColumns + 64);
  GuardedArray<int8_t> query(kColumns + 64);
  FillRandom(random, -127, rows);
  FillRandom(random, -128, query);
  for (size_t shift = 0; shift <= 64; ++shift) {
    std::array<int32_t, kRows> scores;
    std::array<int32_t, kRows> expected;
    const int8_t* shifted_query = query.data() + (64 - shift);
    Int8DotScan(rows.data() + shift, kRows, kColumns, kColumns, shifted_query,
                scores.data());
    Int8DotScanScalar(rows.data() + shift, kRows, kColumns, kColumns,
                      shifted_query, expected.data());
    ASSERT_EQ(scores, expected) << "shift " << shift;
  }
}

TEST_P(Int8DotScanTest, IsExactForTheExtremes) {
  constexpr size_t kColumns = 384;
  for (const int row_value : {-127, 127}) {
    for (const int query_value : {-128, -127, 127}) {
      const std::vector<int8_t> rows(4 * kColumns,
                                     static_cast<int8_t>(row_value));
      const std::vector<int8_t> query(kColumns,
                                      static_cast<int8_t>(query_value));
      std::array<int32_t, 4> scores;
      Int8DotScan(rows.data(), 4, kColumns, kColumns, query.data(),
                  scores.data());
      for (const int32_t score : scores) {
        EXPECT_EQ(score, row_value * query_value * int32_t{kColumns});
      }
    }
  }
}

// Queries whose numbers are just small enough, or just too large, for sums of
// several steps in 16 bits; the rows take every such sum to its bound.
TEST_P(Int8DotScanTest, IsExactWhereShortSumsJustFit) {
  constexpr size_t kColumns = 416;
  for (int value = 1; value <= 128; ++value) {
    for (const int row_value : {-127, 127}) {
      std::vector<int8_t> rows(5 * kColumns, static_cast<int8_t>(row_value));
      std::vector<int8_t> query(kColumns, static_cast<int8_t>(-value));
      // One large number among small ones decides for its lane alone.
      query[200] = -128;
      std::array<int32_t, 5> scores;
      std::array<int32_t, 5> expected;
      Int8DotScan(rows.data(), 5, kColumns, kColumns, query.data(),
                  scores.data());
      Int8DotScanScalar(rows.data(), 5, kColumns, kColumns, query.data(),
                        expected.data());
      ASSERT_EQ(scores, expected) << value << " x " << row_value;
    }
  }
}

TEST_P(Int8DotScanTest, HoldsTheStatedNumberOfColumns) {
  constexpr size_t kColumns = 133'000;
  const std::vector<int8_t> ones(kColumns, int8_t{127});
  int32_t score = 0;
  Int8DotScan(ones.data(), 1, kColumns, kColumns, ones.data(), &score);
  EXPECT_EQ(score, 127 * 127 * int32_t{kColumns});
}

NEXUS_INSTANTIATE_TARGET_TEST(Int8DotScanTest);

TEST_P(Int8DotScanTest, QuantizesLikeTheReferenceAtEveryLength) {
  std::mt19937 random(7);
  for (size_t n = 0; n <= 70; ++n) {
    for (const float spread : {1e-38F, 0.05F, 1e30F}) {
      std::normal_distribution<float> normal(0.0F, spread);
      GuardedArray<float> values(n);
      for (float& value : values) value = normal(random);
      GuardedArray<int8_t> quantized(n);
      std::vector<int8_t> expected(n);
      EXPECT_EQ(QuantizeInt8(values.data(), n, quantized.data()),
                QuantizeInt8Scalar(values.data(), n, expected.data()));
      ASSERT_TRUE(
          std::equal(expected.begin(), expected.end(), quantized.begin()))
          << n << " of " << spread;
      for (size_t i = 0; i < n; ++i) {
        const float kept = values[i];
        values[i] = std::numeric_limits<float>::quiet_NaN();
        ASSERT_EQ(QuantizeInt8(values.data(), n, quantized.data()), 0.0F);
        values[i] = -std::numeric_limits<float>::infinity();
        ASSERT_EQ(QuantizeInt8(values.data(), n, quantized.data()), 0.0F);
        values[i] = kept;
      }
    }
  }
}

TEST(QuantizeInt8Test, KeepsEveryValueWithinHalfAStep) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0.0F, 0.05F);
  std::vector<float> values(384);
  for (float& value : values) value = normal(random);
  std::vector<int8_t> quantized(values.size());
  const float scale =
      QuantizeInt8(values.data(), values.size(), quantized.data());
  ASSERT_GT(scale, 0.0F);
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_NEAR(values[i], scale * static_cast<float>(quantized[i]),
                scale * 0.5001F);
  }
}

TEST(QuantizeInt8Test, MapsTheLargestMagnitudeTo127) {
  const std::array<float, 4> values = {0.25F, -2.0F, 1.0F, 2.0F};
  std::array<int8_t, 4> quantized;
  EXPECT_FLOAT_EQ(QuantizeInt8(values.data(), 4, quantized.data()),
                  2.0F / 127.0F);
  EXPECT_EQ(quantized, (std::array<int8_t, 4>{16, -127, 64, 127}));
}

TEST(QuantizeInt8Test, GivesZerosForZerosAndNonFiniteInput) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::array<std::array<float, 3>, 4> inputs = {{{0.0F, -0.0F, 0.0F},
                                                       {1.0F, kInfinity, 2.0F},
                                                       {-kInfinity, 0.0F, 1.0F},
                                                       {1.0F, 2.0F, kNan}}};
  for (const auto& input : inputs) {
    std::array<int8_t, 3> quantized = {1, 2, 3};
    EXPECT_EQ(QuantizeInt8(input.data(), 3, quantized.data()), 0.0F);
    EXPECT_EQ(quantized, (std::array<int8_t, 3>{0, 0, 0}));
  }
}

TEST(QuantizeInt8Test, CoversTheWholeRangeOfFloats) {
  const std::array<float, 2> tiny = {1e-38F, -5e-39F};
  std::array<int8_t, 2> quantized;
  EXPECT_GT(QuantizeInt8(tiny.data(), 2, quantized.data()), 0.0F);
  EXPECT_EQ(quantized, (std::array<int8_t, 2>{127, -64}));

  const std::array<float, 2> huge = {std::numeric_limits<float>::max(), 0.0F};
  EXPECT_TRUE(std::isfinite(QuantizeInt8(huge.data(), 2, quantized.data())));
  EXPECT_EQ(quantized, (std::array<int8_t, 2>{127, 0}));

  const std::array<float, 1> smallest = {
      std::numeric_limits<float>::denorm_min()};
  std::array<int8_t, 1> one = {5};
  EXPECT_EQ(QuantizeInt8(smallest.data(), 1, one.data()), 0.0F);
  EXPECT_EQ(one[0], 0);
}

TEST(QuantizeInt8Test, AcceptsNoElements) {
  EXPECT_EQ(QuantizeInt8(nullptr, 0, nullptr), 0.0F);
}

}  // namespace
}  // namespace nexus::simd
