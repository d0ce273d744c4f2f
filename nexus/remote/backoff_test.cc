#include "nexus/remote/backoff.h"

#include "gtest/gtest.h"

namespace nexus::remote {
namespace {

using std::chrono::milliseconds;

TEST(BackoffTest, DoublesFromRetryToRetry) {
  const BackoffOptions options{.first = milliseconds(100),
                               .longest = milliseconds(1000)};
  EXPECT_EQ(BackoffDelay(options, 0, 1), milliseconds(100));
  EXPECT_EQ(BackoffDelay(options, 1, 1), milliseconds(200));
  EXPECT_EQ(BackoffDelay(options, 3, 1), milliseconds(800));
}

TEST(BackoffTest, StaysUnderTheLongestForAnyRetry) {
  const BackoffOptions options{.first = milliseconds(100),
                               .longest = milliseconds(1000)};
  EXPECT_EQ(BackoffDelay(options, 4, 1), milliseconds(1000));
  EXPECT_EQ(BackoffDelay(options, 1000000, 1), milliseconds(1000));
}

TEST(BackoffTest, JitterTakesUpToHalf) {
  const BackoffOptions options{.first = milliseconds(100),
                               .longest = milliseconds(1000)};
  EXPECT_EQ(BackoffDelay(options, 1, 0), milliseconds(100));
  EXPECT_EQ(BackoffDelay(options, 1, 0.5), milliseconds(150));
}

TEST(BackoffTest, ReadsSecondsOfRetryAfter) {
  EXPECT_EQ(ParseRetryAfter("3", 0), milliseconds(3000));
  EXPECT_EQ(ParseRetryAfter(" 0.25 ", 0), milliseconds(250));
  EXPECT_EQ(ParseRetryAfter("0", 0), milliseconds(0));
}

TEST(BackoffTest, ReadsADateOfRetryAfter) {
  // 1994-11-06 08:49:37 UTC.
  constexpr int64_t kThen = 784111777;
  constexpr char kDate[] = "Sun, 06 Nov 1994 08:49:37 GMT";
  EXPECT_EQ(ParseRetryAfter(kDate, kThen - 5), milliseconds(5000));
  EXPECT_EQ(ParseRetryAfter(kDate, kThen + 5), milliseconds(0));
}

TEST(BackoffTest, BoundsAndRefusesOddRetryAfters) {
  EXPECT_EQ(ParseRetryAfter("99999999999", 0), kLongestRetryAfter);
  EXPECT_EQ(ParseRetryAfter("-4", 0), milliseconds(0));
  for (const char* odd : {"", "  ", "soon", "3 s", "nan", "inf", "1e9x"}) {
    EXPECT_EQ(ParseRetryAfter(odd, 0), std::nullopt) << odd;
  }
}

}  // namespace
}  // namespace nexus::remote
