#include "nexus/mcp/request_headers.h"

#include "gtest/gtest.h"

namespace nexus::mcp {
namespace {

TEST(RequestHeadersTest, EncodesWhatNoHeaderCanCarry) {
  for (const auto& [text, header] :
       {std::pair<const char*, const char*>{"us-west1", "us-west1"},
        {"a b", "a b"},
        {"", ""},
        {"Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="},
        {" padded ", "=?base64?IHBhZGRlZCA=?="},
        {"line1\nline2", "=?base64?bGluZTEKbGluZTI=?="},
        {"=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="}}) {
    EXPECT_EQ(EncodeHeaderText(text), header);
    EXPECT_TRUE(HeaderMeans(header, text)) << text;
  }
  // Plain text may be encoded all the same.
  EXPECT_TRUE(HeaderMeans("=?base64?SGVsbG8=?=", "Hello"));
}

TEST(RequestHeadersTest, TakesNothingElse) {
  for (const auto& [header, text] :
       {std::pair<const char*, const char*>{"us-west1", "us-west2"},
        {"Hello", "hello"},
        {"=?base64?SGVsbG8?=", "Hello"},
        {"=?base64?SGVs!!!bG8=?=", "Hello"},
        {"=?BASE64?SGVsbG8=?=", "Hello"},
        {"=?base64?literal?=", "=?base64?literal?="},
        {"世界", "世界"},
        {"a\x01", "a\x01"},
        {"", "x"},
        {"x", ""}}) {
    EXPECT_FALSE(HeaderMeans(header, text)) << header;
  }
  // Without its end it is a plain text.
  EXPECT_TRUE(HeaderMeans("=?base64?SGVsbG8=", "=?base64?SGVsbG8="));
  EXPECT_TRUE(HeaderMeans("=?base64?=", "=?base64?="));
}

TEST(RequestHeadersTest, NamesWhatARequestIsAbout) {
  EXPECT_EQ(NamedInHeader("tools/call", {{"name", "x"}, {"uri", "y"}}), "x");
  EXPECT_EQ(NamedInHeader("prompts/get", {{"name", "x"}}), "x");
  EXPECT_EQ(NamedInHeader("resources/read", {{"uri", "y"}}), "y");
  EXPECT_FALSE(NamedInHeader("tools/list", {{"name", "x"}}));
  EXPECT_FALSE(NamedInHeader("tools/call", {{"name", 7}}));
  EXPECT_FALSE(NamedInHeader("tools/call", nullptr));
}

TEST(RequestHeadersTest, FindsMarkedProperties) {
  const Json schema = Json::parse(R"({"type": "object", "properties": {
      "region": {"type": "string", "x-mcp-header": "Region"},
      "query": {"type": "string"},
      "inner": {"properties": {"n": {"x-mcp-header": "N"}}},
      "absent": {"x-mcp-header": "Absent"},
      "odd": {"x-mcp-header": "Odd"},
      "wrong": {"x-mcp-header": 7},
      "evil": {"x-mcp-header": "A: 1\r\nB"},
      "list": {"items": {"properties": {"x": {"x-mcp-header": "X"}}}}},
      "anyOf": [{"properties": {"y": {"x-mcp-header": "Y"}}}]})");
  const auto headers =
      ParamHeaders(schema, Json::parse(R"({"region": "é", "inner": {"n": 42},
                              "odd": [1], "list": [{"x": 1}], "y": 1})"));
  ASSERT_EQ(headers.size(), 3u);
  EXPECT_EQ(headers[0].name, "Mcp-Param-Region");
  EXPECT_EQ(ParamHeaderText(headers[0].value), "=?base64?w6k=?=");
  EXPECT_EQ(headers[1].name, "Mcp-Param-N");
  EXPECT_EQ(ParamHeaderText(headers[1].value), "42");
  EXPECT_EQ(headers[2].name, "Mcp-Param-Absent");
  EXPECT_TRUE(headers[2].value.is_null());
  for (const char* odd : {"null", "7", R"({"properties": 7})", "[]",
                          R"({"properties": {"a": 7}})"}) {
    EXPECT_TRUE(ParamHeaders(Json::parse(odd), Json::parse(odd)).empty());
  }
}

TEST(RequestHeadersTest, ComparesByType) {
  EXPECT_TRUE(ParamHeaderMeans("42", 42));
  EXPECT_TRUE(ParamHeaderMeans("42.0", 42));
  EXPECT_TRUE(ParamHeaderMeans("-7", -7));
  EXPECT_TRUE(ParamHeaderMeans("true", true));
  EXPECT_TRUE(ParamHeaderMeans("true", "true"));
  for (const char* wrong : {"43", "", "0x2a", "42 ", "4 2", "inf", "true"}) {
    EXPECT_FALSE(ParamHeaderMeans(wrong, 42)) << wrong;
  }
  EXPECT_FALSE(ParamHeaderMeans("True", true));
  EXPECT_FALSE(ParamHeaderMeans("1", true));
}

}  // namespace
}  // namespace nexus::mcp
