#include "nexus/schema/tool_schema.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "nexus/base/test_util.h"

namespace nexus::schema {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kMcp = R"({
  "name": "get_weather", "description": "Weather of a city.",
  "inputSchema": {"type": "object",
                  "properties": {"city": {"type": "string", "description": "Where"},
                                 "days": {"type": "integer", "default": 3}},
                  "required": ["city"]},
  "annotations": {"readOnlyHint": true, "title": "Weather"}})";

Json Parse(std::string_view text) { return ParseJson(text, "test").value(); }

ToolSchema Tool(std::string_view text, std::string_view server = "") {
  auto tool = ParseTool(Parse(text), server, "test");
  EXPECT_TRUE(tool.ok()) << tool.status();
  return tool.ok() ? *tool : ToolSchema{};
}

std::string ErrorOf(std::string_view text) {
  const auto tool = ParseTool(Parse(text), "", "x.jsonl:7");
  EXPECT_FALSE(tool.ok()) << text;
  return tool.status().ToString();
}

std::string WithParameters(const std::string& parameters) {
  return R"({"name": "t", "parameters": )" + parameters + "}";
}

TEST(ToolSchemaTest, ReadsAllThreeSpellingsOfATool) {
  Json function = Parse(kMcp);
  function["parameters"] = function["inputSchema"];
  function.erase("inputSchema");
  const ToolSchema mcp = Tool(kMcp);
  const ToolSchema bare = Tool(function.dump());
  const ToolSchema openai =
      Tool(Json{{"type", "function"}, {"function", function}}.dump());
  EXPECT_EQ(mcp.name, "get_weather");
  EXPECT_EQ(mcp.description, "Weather of a city.");
  for (const ToolSchema& other : {bare, openai}) {
    EXPECT_EQ(CanonicalText(other), CanonicalText(mcp));
    EXPECT_EQ(ModelText(other), ModelText(mcp));
    EXPECT_EQ(SchemaHash(other), SchemaHash(mcp));
  }
}

TEST(ToolSchemaTest, MissingParametersAreOneAndTheSame) {
  const std::string expected = CanonicalText(Tool(R"({"name": "t"})"));
  for (const char* parameters :
       {"null", "{}", R"({"type": "object"})", R"({"properties": null})",
        R"({"type": "object", "properties": {}})",
        R"({"type": "object", "properties": {}, "required": null})"}) {
    EXPECT_EQ(CanonicalText(Tool(WithParameters(parameters))), expected)
        << parameters;
    EXPECT_EQ(CanonicalText(Tool(R"({"name": "t", "inputSchema": )" +
                                 std::string(parameters) + "}")),
              expected)
        << parameters;
  }
  EXPECT_EQ(expected, R"({"description":"","name":"t",)"
                      R"("parameters":{"properties":{},"type":"object"}})");
}

TEST(ToolSchemaTest, KeepsAnnotationsAsHints) {
  const ToolSchema tool = Tool(kMcp);
  EXPECT_EQ(tool.annotations.read_only, true);
  EXPECT_EQ(tool.annotations.destructive, std::nullopt);
}

TEST(ToolSchemaTest, ModelTextKeepsTheAuthorsOrder) {
  EXPECT_EQ(
      ModelText(Tool(R"({"name":"t","description":"d","parameters":
          {"required":["b"],"type":"object","properties":{"b":{"type":"string"},"a":{}}}})")),
      R"({"type": "function", "function": {"name": "t", "description": "d", )"
      R"("parameters": {"required": ["b"], "type": "object", "properties": )"
      R"({"b": {"type": "string"}, "a": {}}}}})");
}

TEST(ToolSchemaTest, HashIgnoresKeyOrderAndNothingElse) {
  const auto hash = [](const std::string& parameters) {
    return SchemaHash(Tool(WithParameters(parameters)));
  };
  const std::string base =
      R"({"type": "object", "properties": {"a": {"type": "integer", "default": 1}}})";
  EXPECT_EQ(
      hash(base),
      hash(
          R"({"properties": {"a": {"default": 1, "type": "integer"}}, "type": "object"})"));
  EXPECT_NE(
      hash(base),
      hash(
          R"({"type": "object", "properties": {"a": {"type": "integer", "default": 1.0}}})"));
  EXPECT_NE(
      hash(base),
      hash(
          R"({"type": "object", "properties": {"A": {"type": "integer", "default": 1}}})"));
}

TEST(ToolSchemaTest, ToolIdNamesTheServerIfThereIsOne) {
  EXPECT_EQ(ToolId(Tool(kMcp, "meteo")), "meteo/get_weather");
  EXPECT_EQ(ToolId(Tool(kMcp)), "get_weather");
}

TEST(ToolSchemaTest, ServerIsNoPartOfTheHash) {
  EXPECT_EQ(SchemaHash(Tool(kMcp, "a")), SchemaHash(Tool(kMcp, "b")));
}

TEST(ToolSchemaTest, TwinKeyFoldsSpellingAndServerPrefix) {
  const std::string key = TwinKey(
      Tool(R"({"name": "get_http_server", "description": "Gets it, now."})"));
  EXPECT_EQ(key, "get http server\ngets it now");
  EXPECT_EQ(
      TwinKey(
          Tool(R"({"name": "getHTTPServer", "description": " gets  IT now"})")),
      key);
  EXPECT_EQ(
      TwinKey(Tool(
          R"({"name": "my-srv.GetHttpServer", "description": "gets it_now"})",
          "mySrv")),
      key);
  // The prefix is all there is: it is the name.
  EXPECT_EQ(TwinKey(Tool(R"({"name": "git"})", "git")), "git\n");
  EXPECT_EQ(TwinKey(Tool(R"({"name": "Größe_ÄÖ"})")), "größe ÄÖ\n");
}

TEST(ToolSchemaTest, SearchTextHoldsParameterNamesAndDescriptions) {
  EXPECT_EQ(SearchText(Tool(kMcp)),
            "get_weather Weather of a city. city Where days");
}

TEST(ToolSchemaTest, ErrorsNameSourceToolAndField) {
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("x.jsonl:7: a tool is an array"));
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("x.jsonl:7: a tool without a \"name\""));
  EXPECT_THAT(ErrorOf(R"({"name": 3})"), HasSubstr("\"name\" is a number"));
  EXPECT_THAT(ErrorOf(R"({"name": ""})"), HasSubstr("0 bytes"));
  EXPECT_THAT(ErrorOf(R"({"name": "a\nb"})"), HasSubstr("control character"));
  EXPECT_THAT(ErrorOf(R"({"type": "function", "function": "f"})"),
              HasSubstr("\"function\" is a string"));
  EXPECT_THAT(ErrorOf(R"({"name": "t", "description": {}})"),
              HasSubstr("tool 't': \"description\" is an object"));
  EXPECT_THAT(ErrorOf(R"({"name": "t", "inputSchema": []})"),
              HasSubstr("\"inputSchema\" is an array"));
  EXPECT_THAT(ErrorOf(WithParameters(R"({"type": "string"})")),
              HasSubstr("has the type \"string\", expected \"object\""));
  EXPECT_THAT(ErrorOf(WithParameters(R"({"properties": []})")),
              HasSubstr("\"properties\" is an array"));
  EXPECT_THAT(ErrorOf(WithParameters(R"({"required": "a"})")),
              HasSubstr("\"required\" is a string"));
}

TEST(ToolSchemaTest, AcceptsThePythonMindedObjectType) {
  EXPECT_EQ(Tool(WithParameters(R"({"type": "dict", "properties": {"a": {}}})"))
                .parameters["type"],
            "dict");
}

std::string Nested(int levels) {
  std::string text;
  for (int i = 0; i < levels; ++i) text += R"({"a":)";
  return text + "1" + std::string(static_cast<size_t>(levels), '}');
}

TEST(ToolSchemaTest, RefusesSixtyFourLevelsAndMore) {
  Tool(WithParameters(Nested(kMaxSchemaLevels)));
  EXPECT_THAT(ErrorOf(WithParameters(Nested(64))),
              HasSubstr("tool 't': a schema of 64 levels, the limit is 63"));
}

TEST(ToolSchemaTest, RefusesFiveMegabytes) {
  const auto sized = [](size_t bytes) {
    const std::string frame = R"({"description":""})";
    return WithParameters(R"({"description":")" +
                          std::string(bytes - frame.size(), 'x') + "\"}");
  };
  Tool(sized(kMaxSchemaBytes - 1));
  EXPECT_THAT(ErrorOf(sized(kMaxSchemaBytes)), HasSubstr("5000000 bytes"));
}

}  // namespace
}  // namespace nexus::schema
