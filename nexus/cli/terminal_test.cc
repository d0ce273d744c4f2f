#include "nexus/cli/terminal.h"

#include "gmock/gmock.h"

namespace nexus::cli {
namespace {

using ::testing::HasSubstr;

TEST(TerminalTest, NumbersReadWell) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(-1234567), "-1,234,567");
  EXPECT_EQ(FormatBytes(491400064), "491.4 MB");
  EXPECT_EQ(FormatBytes(12), "12 B");
  EXPECT_EQ(FormatMs(0.0176), "18 us");
  EXPECT_EQ(FormatMs(312.4), "312 ms");
  EXPECT_EQ(FormatMs(61000), "61.0 s");
}

TEST(TerminalTest, WideCharactersCountTwoCells) {
  EXPECT_EQ(DisplayWidth("abc"), 3U);
  EXPECT_EQ(DisplayWidth("한국"), 4U);
  EXPECT_EQ(DisplayWidth("é"), 1U);
}

TEST(TerminalTest, ShortenNeverSplitsACharacter) {
  for (size_t width = 1; width < 8; ++width) {
    const std::string cut = Shorten("한a국b어", width);
    EXPECT_LE(DisplayWidth(cut), width + 1) << cut;
    EXPECT_TRUE(cut.empty() || (cut.back() & 0xC0) != 0xC0) << cut;
  }
  EXPECT_EQ(Shorten("short", 10), "short");
}

TEST(TerminalTest, ControlCharactersOfOthersDoNotReachTheTerminal) {
  EXPECT_EQ(OneLine("a\x1b]0;title\x07"
                    "b\nc\td"),
            "a?]0;title?b c d");
  EXPECT_EQ(OneLine("x\xC2\x9By"), "x?y");
  EXPECT_EQ(OneLine("한국 é"), "한국 é");
  Table table({"name"});
  table.AddRow({"evil\x1b[2J"});
  EXPECT_EQ(table.Render().find('\x1b'), std::string::npos);
}

TEST(TerminalTest, TablesAlignNumbersToTheRight) {
  Table table({"tool", "tokens", "note"});
  table.AddRow({"a", "5", "x"});
  table.AddRow({"bb", "1,234", "y"});
  EXPECT_THAT(table.Render(), HasSubstr("a          5  x\n"));
  EXPECT_THAT(table.Render(), HasSubstr("bb     1,234  y\n"));
}

TEST(TerminalTest, BarsAreToOneScale) {
  const std::string bars = RenderBars({{"a", 10, ""}, {"b", 5, ""}});
  const auto blocks = [](const std::string& line) {
    size_t count = 0;
    for (size_t at = line.find("█"); at != std::string::npos;
         at = line.find("█", at + 1)) {
      ++count;
    }
    return count;
  };
  const size_t end = bars.find('\n');
  const size_t first = blocks(bars.substr(0, end));
  const size_t second = blocks(bars.substr(end));
  EXPECT_GT(first, 0U);
  EXPECT_NEAR(static_cast<double>(second), static_cast<double>(first) / 2, 1);
}

}  // namespace
}  // namespace nexus::cli
