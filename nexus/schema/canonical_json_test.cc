#include "nexus/schema/canonical_json.h"

#include "gtest/gtest.h"

#include "nexus/base/test_util.h"

namespace nexus::schema {
namespace {

Json Parse(std::string_view text) { return ParseJson(text, "test").value(); }

TEST(CanonicalJsonTest, SortsKeysAtEveryLevelAndKeepsArrayOrder) {
  EXPECT_EQ(
      SortedCompactText(Parse(R"({"b": [2, {"z": 1, "y": 0}], "a": {}})")),
      R"({"a":{},"b":[2,{"y":0,"z":1}]})");
}

TEST(CanonicalJsonTest, SortsKeysByBytesNotByLocale) {
  EXPECT_EQ(SortedCompactText(Parse(R"({"é": 1, "z": 2, "A": 3, "": 4})")),
            R"({"":4,"A":3,"z":2,"é":1})");
}

TEST(CanonicalJsonTest, SpacedTextIsWhatPythonWrites) {
  // json.dumps(..., ensure_ascii=False) of the same value.
  const Json value = Parse(
      R"({"b":["é\u00e9\n\"\\\u0001\u007f",1,1.5,true,null],"a":{},"c":[]})");
  EXPECT_EQ(SpacedText(value),
            "{\"b\": [\"éé\\n\\\"\\\\\\u0001\x7f\", 1, 1.5, true, null], "
            "\"a\": {}, \"c\": []}");
}

TEST(CanonicalJsonTest, KeepsIntegersAndFractionsApart) {
  EXPECT_EQ(SortedCompactText(Parse("[1, 1.0, 1.00, 1e2, -0.0, 0.1]")),
            "[1,1.0,1.0,100.0,-0.0,0.1]");
  EXPECT_EQ(
      SortedCompactText(Parse("[18446744073709551615,-9007199254740993]")),
      "[18446744073709551615,-9007199254740993]");
}

TEST(CanonicalJsonTest, DoesNotNormaliseUnicode) {
  // U+00E9 and e + U+0301 look alike and stay different.
  EXPECT_NE(SortedCompactText(Parse("\"\u00e9\"")),
            SortedCompactText(Parse("\"e\u0301\"")));
}

TEST(CanonicalJsonTest, CountsNestedContainersAsLevels) {
  EXPECT_EQ(LevelCount(Parse("1")), 0);
  EXPECT_EQ(LevelCount(Parse("{}")), 1);
  EXPECT_EQ(LevelCount(Parse(R"({"a": [[1]], "b": 2})")), 3);
}

}  // namespace
}  // namespace nexus::schema
