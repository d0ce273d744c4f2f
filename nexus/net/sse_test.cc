#include "nexus/net/sse.h"

#include <string>
#include <vector>

#include "nexus/base/test_util.h"

namespace nexus::net {
namespace {

struct Parsed {
  std::vector<std::string> events;  // "type|data|last_id"
  std::string last_id;
  std::optional<int> retry_ms;
  Status status;

  bool operator==(const Parsed& other) const {
    return events == other.events && last_id == other.last_id &&
           retry_ms == other.retry_ms && status.code() == other.status.code();
  }
};

Parsed Parse(const std::vector<std::string_view>& pieces,
             size_t max_event_bytes = 1024) {
  Parsed parsed;
  SseParser parser(
      [&](const SseEvent& event) {
        parsed.events.push_back(event.type + "|" + event.data + "|" +
                                event.last_id);
        return true;
      },
      max_event_bytes);
  for (const std::string_view piece : pieces) {
    parsed.status = parser.Feed(piece);
    if (!parsed.status.ok()) break;
  }
  parsed.last_id = parser.last_event_id();
  parsed.retry_ms = parser.retry_ms();
  return parsed;
}

std::vector<std::string> EventsOf(std::string_view stream) {
  return Parse({stream}).events;
}

using Strings = std::vector<std::string>;

TEST(SseParserTest, JoinsDataLinesWithLineFeed) {
  EXPECT_EQ(EventsOf("data: a\ndata: b\ndata\n\n"), Strings{"message|a\nb\n|"});
}

TEST(SseParserTest, AcceptsEveryLineEnd) {
  const Strings expected = {"message|a|", "x|b|"};
  EXPECT_EQ(EventsOf("data: a\n\nevent: x\ndata: b\n\n"), expected);
  EXPECT_EQ(EventsOf("data: a\r\revent: x\rdata: b\r\r"), expected);
  EXPECT_EQ(EventsOf("data: a\r\n\r\nevent: x\r\ndata: b\r\n\r\n"), expected);
}

TEST(SseParserTest, SkipsOneByteOrderMarkOnlyAtTheStart) {
  EXPECT_EQ(EventsOf("\xEF\xBB\xBF"
                     "data: a\n\n"),
            Strings{"message|a|"});
  EXPECT_EQ(EventsOf("data: a\n\n\xEF\xBB\xBF"
                     "data: b\n\n"),
            Strings{"message|a|"});
}

TEST(SseParserTest, IgnoresCommentsAndUnknownFields) {
  EXPECT_EQ(EventsOf(": ping\nfoo: bar\ndata:x\n\n"), Strings{"message|x|"});
}

TEST(SseParserTest, RemovesOneSpaceAfterTheColon) {
  EXPECT_EQ(EventsOf("data:  two\n\n"), Strings{"message| two|"});
}

TEST(SseParserTest, DispatchesNothingWithoutData) {
  EXPECT_EQ(EventsOf("event: x\nid: 1\n\ndata: y\n\n"), Strings{"message|y|1"});
}

TEST(SseParserTest, DispatchesEmptyData) {
  EXPECT_EQ(EventsOf("data:\n\n"), Strings{"message||"});
}

TEST(SseParserTest, DropsAnEventWithoutItsEmptyLine) {
  EXPECT_TRUE(EventsOf("data: x\n").empty());
}

TEST(SseParserTest, KeepsTheIdUntilTheNextOne) {
  const Parsed parsed = Parse({"id: 7\ndata: a\n\ndata: b\n\nid\ndata: c\n\n"});
  EXPECT_EQ(parsed.events,
            (Strings{"message|a|7", "message|b|7", "message|c|"}));
  EXPECT_EQ(parsed.last_id, "");
}

TEST(SseParserTest, IgnoresAnIdWithNul) {
  const std::string stream("id: a\0b\ndata: x\n\n", 17);
  EXPECT_EQ(EventsOf(stream), Strings{"message|x|"});
}

TEST(SseParserTest, ReadsRetryOnlyOfDigits) {
  EXPECT_EQ(Parse({"retry: 250\n"}).retry_ms, 250);
  EXPECT_EQ(Parse({"retry: 2s\n"}).retry_ms, std::nullopt);
  EXPECT_EQ(Parse({"retry: -1\n"}).retry_ms, std::nullopt);
  EXPECT_EQ(Parse({"retry: 99999999999999999999\n"}).retry_ms, std::nullopt);
}

TEST(SseParserTest, GivesTheSameEventsAtEverySplit) {
  const std::string stream =
      "\xEF\xBB\xBF: hello\r\nid: 4\r\nevent: m\ndata: {\"a\":\rdata: 1}\r\n"
      "\r\nretry: 10\n\ndata: \xC3\xA9\n\r\ndata: tail\n\n";
  const Parsed whole = Parse({stream});
  ASSERT_EQ(whole.events, (Strings{"m|{\"a\":\n1}|4", "message|\xC3\xA9|4",
                                   "message|tail|4"}));
  const std::string_view view = stream;
  for (size_t i = 0; i <= view.size(); ++i) {
    for (size_t j = i; j <= view.size(); ++j) {
      const Parsed cut =
          Parse({view.substr(0, i), view.substr(i, j - i), view.substr(j)});
      ASSERT_EQ(cut, whole) << "cut at " << i << " and " << j;
    }
  }
}

TEST(SseParserTest, RefusesAnEventOverTheLimitInOneLineOrMany) {
  EXPECT_EQ(Parse({"data: 0123456789"}, 10).status.code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(Parse({"data: 1\n", "data: 2\n", "data: 3\n", "data: 4\n"}, 11)
                .status.code(),
            StatusCode::kResourceExhausted);
  EXPECT_OK(Parse({"data: 1\n\n", "data: 2\n\n", "data: 3\n\n"}, 12).status);
}

TEST(SseParserTest, StopsWhenItsReaderSaysSo) {
  int count = 0;
  SseParser parser([&](const SseEvent&) { return ++count < 2; });
  EXPECT_EQ(parser.Feed("data: 1\n\ndata: 2\n\ndata: 3\n\n").code(),
            StatusCode::kCancelled);
  EXPECT_EQ(parser.Feed("data: 4\n\n").code(), StatusCode::kCancelled);
  EXPECT_EQ(count, 2);
}

}  // namespace
}  // namespace nexus::net
