#include "nexus/base/lines.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"

namespace nexus {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

std::vector<std::pair<size_t, std::string>> LinesOf(std::string_view text) {
  std::vector<std::pair<size_t, std::string>> lines;
  EXPECT_OK(ForEachLine(text, [&](std::string_view line, size_t number) {
    lines.emplace_back(number, line);
    return Status::Ok();
  }));
  return lines;
}

TEST(LinesTest, NumbersBlankLinesToo) {
  EXPECT_THAT(LinesOf("a\n\nb\n"),
              ElementsAre(Pair(1, "a"), Pair(2, ""), Pair(3, "b")));
  EXPECT_THAT(LinesOf("a\nb"), ElementsAre(Pair(1, "a"), Pair(2, "b")));
  EXPECT_THAT(LinesOf(""), IsEmpty());
}

TEST(LinesTest, StopsAtTheFirstError) {
  size_t visited = 0;
  const Status status = ForEachLine("a\nb\nc", [&](std::string_view, size_t n) {
    visited = n;
    return n == 2 ? CancelledError("enough") : Status::Ok();
  });
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_EQ(visited, 2U);
}

}  // namespace
}  // namespace nexus
