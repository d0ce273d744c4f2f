#include "nexus/serve/stop_filter.h"

#include "gtest/gtest.h"

namespace nexus::serve {
namespace {

// Everything that goes out when `text` comes in pieces of `size` bytes.
std::string Filtered(const std::vector<std::string>& stops,
                     std::string_view text, size_t size) {
  StopFilter filter(stops);
  std::string out;
  for (size_t i = 0; i < text.size() && !filter.stopped(); i += size) {
    out += filter.Feed(text.substr(i, size));
  }
  return out + filter.Flush();
}

TEST(StopFilterTest, EndsBeforeTheStopHoweverItIsCut) {
  for (size_t size = 1; size < 20; ++size) {
    EXPECT_EQ(Filtered({"###"}, "one ## two ### three", size), "one ## two ");
    EXPECT_EQ(Filtered({"xyz", "two"}, "one two xyz", size), "one ");
    EXPECT_EQ(Filtered({"aab"}, "aaab", size), "a");
    EXPECT_EQ(Filtered({}, "one two", size), "one two");
    EXPECT_EQ(Filtered({"two!"}, "one two", size), "one two");
  }
}

TEST(StopFilterTest, LetsOutWhatCantBecomeAStop) {
  StopFilter filter({"END"});
  EXPECT_EQ(filter.Feed("hello E"), "hello ");
  EXPECT_EQ(filter.Feed("N"), "");
  EXPECT_EQ(filter.Feed("T"), "ENT");
  EXPECT_FALSE(filter.stopped());
}

TEST(StopFilterTest, KeepsCharactersWhole) {
  const std::string text = "a\u00e9\u4e2d\U0001F600z";
  StopFilter filter({});
  std::string out;
  for (const char byte : text) {
    const std::string piece = filter.Feed(std::string_view(&byte, 1));
    // Either nothing or a whole character.
    if (!piece.empty()) {
      EXPECT_NE(static_cast<unsigned char>(piece[0]) & 0xC0U, 0x80U);
    }
    out += piece;
  }
  EXPECT_EQ(out, text);
  EXPECT_EQ(filter.Flush(), "");
}

TEST(StopFilterTest, PassesWhatIsNoUtf8) {
  EXPECT_EQ(Filtered({}, "\xff\xfe\x80x", 1), "\xff\xfe\x80x");
  EXPECT_EQ(Filtered({}, "\x80\x80\x80\x80\x80", 1), "\x80\x80\x80\x80\x80");
  EXPECT_EQ(Filtered({}, "ab\xf0\x9f", 1), "ab\xf0\x9f");
}

}  // namespace
}  // namespace nexus::serve
