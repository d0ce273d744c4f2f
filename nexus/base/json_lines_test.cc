#include "nexus/base/json_lines.h"

#include "gmock/gmock.h"

namespace nexus {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(JsonLinesTest, BlankLinesAreSkippedAndCounted) {
  std::vector<std::string> seen;
  const Status status = ForEachJsonLine(
      "1\n \t\r\n{\"a\": 2}\r\n3", "f.jsonl",
      [&](const Json& value, const std::string& where, size_t number) {
        seen.push_back(where + " " + std::to_string(number) + " " +
                       DumpJson(value));
        return Status::Ok();
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_THAT(seen, ElementsAre("f.jsonl:1 1 1", "f.jsonl:3 3 {\"a\":2}",
                                "f.jsonl:4 4 3"));
}

TEST(JsonLinesTest, TheFirstErrorEndsTheWalk) {
  int visited = 0;
  const auto count = [&](const Json& value, const std::string&, size_t) {
    ++visited;
    return value == 2 ? CancelledError("enough") : Status::Ok();
  };
  EXPECT_THAT(ForEachJsonLine("1\n{\n2", "f.jsonl", count).message(),
              HasSubstr("f.jsonl:2"));
  EXPECT_EQ(visited, 1);
  EXPECT_EQ(ForEachJsonLine("2\n3", "f.jsonl", count).code(),
            StatusCode::kCancelled);
  EXPECT_EQ(visited, 2);
}

}  // namespace
}  // namespace nexus
