#include "nexus/mcp/line_splitter.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace nexus::mcp {
namespace {

struct Split {
  std::vector<std::string> lines;
  std::vector<size_t> oversized;
  std::string partial;
  bool operator==(const Split&) const = default;
};

Split SplitPieces(const std::vector<std::string_view>& pieces, size_t limit) {
  Split split;
  LineSplitter splitter(
      {.on_line =
           [&](std::string_view line) { split.lines.emplace_back(line); },
       .on_oversized =
           [&](size_t byte_count) { split.oversized.push_back(byte_count); }},
      limit);
  for (const std::string_view piece : pieces) splitter.Feed(piece);
  split.partial = splitter.partial();
  return split;
}

TEST(LineSplitterTest, GivesTheSameLinesAtEverySplit) {
  const std::string_view stream = "a\r\n\n{\"b\":1}\n0123456789abc\nlast\npart";
  const Split whole = SplitPieces({stream}, 10);
  EXPECT_EQ(whole.lines, (std::vector<std::string>{"a", "{\"b\":1}", "last"}));
  EXPECT_EQ(whole.oversized, std::vector<size_t>{13});
  EXPECT_EQ(whole.partial, "part");
  for (size_t i = 0; i <= stream.size(); ++i) {
    for (size_t j = i; j <= stream.size(); ++j) {
      ASSERT_EQ(SplitPieces({stream.substr(0, i), stream.substr(i, j - i),
                             stream.substr(j)},
                            10),
                whole)
          << "cut at " << i << " and " << j;
    }
  }
}

TEST(LineSplitterTest, TakesALineOfExactlyTheLimit) {
  EXPECT_EQ(SplitPieces({"0123456789\n"}, 10).lines,
            std::vector<std::string>{"0123456789"});
}

TEST(LineSplitterTest, KeepsNothingOfAnEndlessLine) {
  const std::string piece(1000, 'x');
  const Split split =
      SplitPieces(std::vector<std::string_view>(1000, piece), 1500);
  EXPECT_TRUE(split.lines.empty());
  EXPECT_TRUE(split.partial.empty());
}

}  // namespace
}  // namespace nexus::mcp
