#include "nexus/kv/block_storage.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/simd/float16.h"

namespace nexus::kv {
namespace {

using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::Optional;

// Channels with an offset of their own and a small movement around it, as
// un-rotated keys have them.
std::vector<float> Rows(size_t tokens, size_t elements) {
  std::vector<float> rows(tokens * elements);
  for (size_t token = 0; token < tokens; ++token) {
    for (size_t i = 0; i < elements; ++i) {
      const auto t = static_cast<float>(token);
      const auto c = static_cast<float>(i);
      const float offset = i % 5 == 0 ? 60.0F - 8.0F * c : 0.0F;
      rows[token * elements + i] = offset + std::sin(t * (0.7F + c) + c);
    }
  }
  return rows;
}

std::vector<uint8_t> Encoded(const EncodedShape& shape,
                             const std::vector<float>& rows) {
  std::vector<uint8_t> bytes(shape.byte_count());
  EXPECT_OK(EncodeRows(shape, rows.data(), bytes.data()));
  return bytes;
}

TEST(BlockStorageTest, NamesAreReadBack) {
  for (const char* name : {"f16", "q8", "q8-k4"}) {
    const auto storage = ParseBlockStorage(name);
    ASSERT_TRUE(storage.has_value()) << name;
    EXPECT_EQ(BlockStorageName(*storage), name);
  }
  EXPECT_FALSE(ParseBlockStorage("q4").has_value());
  EXPECT_FALSE(ParseBlockStorage("").has_value());
}

// 8.5 and 4.5 bits an element when the last group is full.
TEST(BlockStorageTest, SizesAreWhatTheFormatSays) {
  EXPECT_EQ((EncodedShape{RowStorage::kQ8, 128, 128}.byte_count()),
            128U * 128 * 17 / 16);
  EXPECT_EQ((EncodedShape{RowStorage::kQ4, 128, 128}.byte_count()),
            128U * 128 * 9 / 16);
  EXPECT_EQ((EncodedShape{RowStorage::kQ4, 65, 3}.byte_count()),
            2U * 3 * 4 + 65 * 2);
}

// Every length around a group and around a pair of nibbles; an error of half a
// step of the channel's range, and of the minimum's own rounding.
TEST(BlockStorageTest, DecodesWithinHalfAStep) {
  for (const RowStorage storage : {RowStorage::kQ8, RowStorage::kQ4}) {
    const float codes = storage == RowStorage::kQ4 ? 15 : 255;
    for (const size_t tokens : {1U, 2U, 63U, 64U, 65U, 130U}) {
      for (const size_t elements : {1U, 2U, 7U, 32U}) {
        const EncodedShape shape = {storage, tokens, elements};
        const std::vector<float> rows = Rows(tokens, elements);
        const std::vector<uint8_t> bytes = Encoded(shape, rows);
        std::vector<float> decoded(rows.size());
        DecodeRows(shape, bytes.data(), 0, tokens, decoded.data());
        for (size_t i = 0; i < rows.size(); ++i) {
          const float rounding = std::fabs(rows[i]) / 2048 + 0.04F;
          ASSERT_NEAR(decoded[i], rows[i], 1.0F / codes + rounding * 0.5F)
              << tokens << " x " << elements << ", number " << i;
        }
      }
    }
  }
}

TEST(BlockStorageTest, DecodesAnyRangeOfRows) {
  for (const RowStorage storage : {RowStorage::kQ8, RowStorage::kQ4}) {
    const EncodedShape shape = {storage, 150, 9};
    const std::vector<uint8_t> bytes = Encoded(shape, Rows(150, 9));
    std::vector<float> all(150 * 9);
    DecodeRows(shape, bytes.data(), 0, 150, all.data());
    std::vector<float> part(70 * 9);
    DecodeRows(shape, bytes.data(), 61, 70, part.data());
    EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin() + 61 * 9));
  }
}

TEST(BlockStorageTest, AChannelThatStandsStillIsExact) {
  const EncodedShape shape = {RowStorage::kQ4, 3, 2};
  const std::vector<float> rows = {-96, 0.5F, -96, 0.5F, -96, 0.5F};
  const std::vector<uint8_t> bytes = Encoded(shape, rows);
  std::vector<float> decoded(rows.size());
  DecodeRows(shape, bytes.data(), 0, 3, decoded.data());
  EXPECT_EQ(decoded, rows);
}

TEST(BlockStorageTest, RefusesNumbersThatNoScaleReaches) {
  for (const float value :
       {std::numeric_limits<float>::quiet_NaN(),
        std::numeric_limits<float>::infinity(), -40000.0F}) {
    const EncodedShape shape = {RowStorage::kQ8, 2, 3};
    std::vector<float> rows(6, 1.0F);
    rows[4] = value;
    std::vector<uint8_t> bytes(shape.byte_count());
    const Status status = EncodeRows(shape, rows.data(), bytes.data());
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("token 1, element 1"));
  }
}

TEST(BlockStorageTest, FindsScalesThatMakeNoNumbers) {
  const EncodedShape shape = {RowStorage::kQ8, 70, 3};
  std::vector<uint8_t> bytes = Encoded(shape, Rows(70, 3));
  EXPECT_EQ(FindBadScale(shape, bytes.data()), std::nullopt);
  auto* halves = reinterpret_cast<uint16_t*>(bytes.data());
  // Scales stand in [0, 6), minimums in [6, 12). NaN, infinity, -1, 65504 as a
  // scale; NaN and infinity as a minimum.
  constexpr uint16_t kBadScales[] = {0x7E00, 0x7C00, 0xBC00, 0x7BFF};
  for (const uint16_t bad : kBadScales) {
    const uint16_t before = halves[4];
    halves[4] = bad;
    EXPECT_THAT(FindBadScale(shape, bytes.data()), Optional(Eq(8U))) << bad;
    halves[4] = before;
  }
  constexpr uint16_t kBadMinimums[] = {0x7E00, 0x7C00, 0xFC00};
  for (const uint16_t bad : kBadMinimums) {
    const uint16_t before = halves[11];
    halves[11] = bad;
    EXPECT_THAT(FindBadScale(shape, bytes.data()), Optional(Eq(22U))) << bad;
    halves[11] = before;
  }
}

}  // namespace
}  // namespace nexus::kv
