#include "nexus/base/json.h"

#include <limits>
#include <string>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"

namespace nexus {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(ParseJsonTest, KeepsTheOrderOfProperties) {
  ASSERT_OK_AND_ASSIGN(const Json json,
                       ParseJson(R"({"z":1,"a":{"y":2,"b":3}})", "test"));
  EXPECT_EQ(DumpJson(json), R"({"z":1,"a":{"y":2,"b":3}})");
}

TEST(ParseJsonTest, LastOfEqualKeysWins) {
  ASSERT_OK_AND_ASSIGN(const Json json,
                       ParseJson(R"({"a":1,"b":2,"a":3})", "test"));
  EXPECT_EQ(DumpJson(json), R"({"a":3,"b":2})");
}

TEST(ParseJsonTest, NamesSourceAndOffset) {
  const Status status = ParseJson(R"({"a": tru})", "tools.json").status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), StartsWith("tools.json: JSON at byte 9: "));
}

TEST(ParseJsonTest, RefusesWhatIsNotOneValue) {
  for (const char* text :
       {"", "  ", "{", "[1,]", "{\"a\"}", "1 2", "{} x", "nul", "'a'",
        "// c\n1", "\"\\ud800\"", "\"\xff\"", "\"\xc0\x80\"", "\"a\nb\"", "01",
        "NaN", "]", "}", "\"open"}) {
    const Status status = ParseJson(text, "test").status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
  }
}

TEST(ParseJsonTest, RefusesNumbersBeyondTheRange) {
  EXPECT_EQ(ParseJson("1e999", "test").status().code(),
            StatusCode::kInvalidArgument);
}

TEST(ParseJsonTest, StopsAtTheDepthLimitWithTheOffset) {
  const JsonLimits limits{.max_depth = 3};
  EXPECT_OK(ParseJson("[[[1]]]", "test", limits));
  EXPECT_OK(ParseJson("[[],[[]],{\"a\":{}}]", "test", limits));
  const Status status = ParseJson("[[[[1]]]]", "test", limits).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("byte 3: nested deeper than 3"));
}

TEST(ParseJsonTest, BracketsInStringsDoNotNest) {
  const JsonLimits limits{.max_depth = 1};
  EXPECT_OK(ParseJson(R"(["[[[{{{", "\"[[", "\\"])", "test", limits));
}

TEST(ParseJsonTest, SurvivesANestBomb) {
  for (const std::string& piece : {std::string("["), std::string("{\"a\":")}) {
    std::string bomb;
    for (int i = 0; i < 100'000; ++i) bomb += piece;
    EXPECT_THAT(ParseJson(bomb, "server 'x'").status().message(),
                HasSubstr("nested deeper than 128"));
  }
}

TEST(ParseJsonTest, StopsAtTheSizeLimit) {
  const JsonLimits limits{.max_bytes = 4};
  EXPECT_OK(ParseJson("1234", "test", limits));
  const Status status = ParseJson("12345", "test", limits).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("5 bytes, the limit is 4"));
}

TEST(ParseJsonTest, StopsAtTheMemberLimitOfOneObject) {
  const JsonLimits limits{.max_object_members = 2};
  EXPECT_OK(ParseJson(R"({"a":1,"b":[1,2,3,4]})", "test", limits));
  EXPECT_OK(ParseJson(R"([{"a":1,"b":2},{"a":1,"b":2}])", "test", limits));
  EXPECT_THAT(
      ParseJson(R"({"a":1,"b":2,"c":3})", "test", limits).status().message(),
      HasSubstr("byte 12: an object with more than 2 members"));
}

TEST(ParseJsonTest, KeepsTheMessageShortAndPrintable) {
  const std::string text = "\"" + std::string(100'000, '\xff') + "\"";
  const std::string message(ParseJson(text, "test").status().message());
  EXPECT_LT(message.size(), 300U);
  for (const char c : message) {
    EXPECT_TRUE(c >= ' ' && c <= '~') << static_cast<int>(c);
  }
}

TEST(DumpJsonTest, ReplacesInvalidUtf8) {
  const Json json = {{"text", "a\xff\x62"}};
  EXPECT_EQ(DumpJson(json),
            "{\"text\":\"a\xEF\xBF\xBD"
            "b\"}");
}

TEST(DumpJsonTest, WritesNullForNumbersThatJsonLacks) {
  EXPECT_EQ(DumpJson(Json(std::numeric_limits<double>::quiet_NaN())), "null");
}

TEST(DumpJsonTest, IndentsOnRequest) {
  EXPECT_EQ(DumpJson(Json{{"a", 1}}, 2), "{\n  \"a\": 1\n}");
}

}  // namespace
}  // namespace nexus
