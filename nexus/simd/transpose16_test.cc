#include <algorithm>
#include <vector>

#include "nexus/simd/rope_rotate.h"
#include "nexus/simd/target_test.h"

namespace nexus::simd {
namespace {

constexpr uint16_t kUntouched = 0xABCD;

class Transpose16Test : public TargetTest {
 protected:
  // Every input element is distinct (below 2^16 elements), so a swapped pair
  // can't go unnoticed. The gaps between output rows must survive.
  static void Check(size_t rows, size_t columns, size_t in_gap,
                    size_t out_gap) {
    const size_t in_stride = columns + in_gap;
    const size_t out_stride = rows + out_gap;
    GuardedArray<uint16_t> in(rows == 0 ? 0 : (rows - 1) * in_stride + columns);
    GuardedArray<uint16_t> out(
        columns == 0 ? 0 : (columns - 1) * out_stride + rows);
    for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint16_t>(i);
    std::fill(out.begin(), out.end(), kUntouched);

    Transpose16(in.data(), rows, columns, in_stride, out.data(), out_stride);

    for (size_t i = 0; i < out.size(); ++i) {
      const size_t c = i / out_stride;
      const size_t t = i % out_stride;
      const uint16_t expected = t < rows ? in[t * in_stride + c] : kUntouched;
      ASSERT_EQ(out[i], expected)
          << rows << " x " << columns << ", channel " << c << " token " << t;
    }
  }
};

TEST_P(Transpose16Test, MovesEveryElementAndNothingElse) {
  for (size_t rows = 0; rows <= 70; ++rows) {
    for (const size_t columns : {0, 1, 7, 8, 9, 16, 31, 40}) {
      Check(rows, columns, 0, 0);
      Check(rows, columns, 3, 5);
    }
  }
}

TEST_P(Transpose16Test, HandlesTheShapeOfACache) {
  Check(/*rows=*/400, /*columns=*/128, /*in_gap=*/0, /*out_gap=*/112);
}

NEXUS_INSTANTIATE_TARGET_TEST(Transpose16Test);

}  // namespace
}  // namespace nexus::simd
