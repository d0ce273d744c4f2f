#include "nexus/simd/sign_scan.h"

#include <array>
#include <random>
#include <vector>

#include "nexus/simd/target_test.h"

namespace nexus::simd {
namespace {

TEST(PackSignsTest, SetsABitForEachNegativeNumber) {
  std::array<int8_t, 70> row = {};
  row[0] = -1;
  row[1] = 127;
  row[63] = -127;
  row[64] = -5;
  row[69] = -1;
  std::array<uint64_t, 2> words = {~uint64_t{0}, ~uint64_t{0}};
  PackSigns(row.data(), row.size(), words.data());
  EXPECT_EQ(words[0], (uint64_t{1} << 63) | 1);
  EXPECT_EQ(words[1], (uint64_t{1} << 5) | 1);
}

class SignDistancesTest : public TargetTest {};

TEST_P(SignDistancesTest, EqualsScalarAndReadsNothingBeyondTheCodes) {
  std::mt19937_64 random(1);
  for (size_t words = 0; words <= 26; ++words) {
    for (size_t row_count = 0; row_count <= 9; ++row_count) {
      GuardedArray<uint64_t> codes(row_count * words);
      GuardedArray<uint64_t> query(words);
      for (uint64_t& word : codes) word = random();
      for (uint64_t& word : query) word = random();
      GuardedArray<uint16_t> distances(row_count);
      std::vector<uint16_t> expected(row_count);
      SignDistances(codes.data(), row_count, words, query.data(),
                    distances.data());
      SignDistancesScalar(codes.data(), row_count, words, query.data(),
                          expected.data());
      for (size_t r = 0; r < row_count; ++r) {
        ASSERT_EQ(distances[r], expected[r]) << words << " words, row " << r;
      }
    }
  }
}

TEST_P(SignDistancesTest, HoldsTheStatedNumberOfWords) {
  constexpr size_t kWords = 1023;
  const std::vector<uint64_t> ones(kWords, ~uint64_t{0});
  const std::vector<uint64_t> zeros(kWords, 0);
  uint16_t distance = 0;
  SignDistances(ones.data(), 1, kWords, zeros.data(), &distance);
  EXPECT_EQ(distance, 64 * kWords);
}

NEXUS_INSTANTIATE_TARGET_TEST(SignDistancesTest);

}  // namespace
}  // namespace nexus::simd
