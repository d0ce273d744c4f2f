#include "nexus/schema/ir_signature.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "nexus/base/test_util.h"
#include "nexus/schema/testing/sample_registries.h"

namespace nexus::schema {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

ToolSchema Tool(const std::string& properties,
                const std::string& required = "[]",
                const std::string& description = "") {
  const Json value =
      ParseJson(
          R"({"name": "f", "parameters": {"type": "object", "properties": )" +
              properties + R"(, "required": )" + required + "}}",
          "test")
          .value();
  ToolSchema tool = ParseTool(value, "", "test").value();
  tool.description = description;
  return tool;
}

std::string Signature(const std::string& properties,
                      const std::string& required = "[]") {
  return IrSignature(Tool(properties, required));
}

void ExpectNamesComeBack(const ToolSchema& tool) {
  std::vector<std::string> expected;
  if (tool.parameters.contains("properties")) {
    for (const auto& [name, schema] : tool.parameters["properties"].items()) {
      expected.push_back(name);
    }
  }
  const std::string signature = IrSignature(tool);
  const auto names = ParameterNames(signature);
  ASSERT_TRUE(names.ok()) << names.status() << " in " << signature;
  EXPECT_EQ(*names, expected) << signature;
  EXPECT_EQ(signature.find('\n'), std::string::npos) << signature;
}

TEST(IrSignatureTest, MarksTypesEnumsOptionsAndDefaults) {
  EXPECT_EQ(IrSignature(Tool(
                R"({"city": {"type": "string"},
              "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
              "days": {"type": "integer", "default": 3},
              "hourly": {"type": "boolean"}})",
                R"(["city", "unit"])", "Weather of a city. More text.")),
            "f(city, unit:celsius|fahrenheit, days?:int=3, hourly?:bool) "
            "Weather");
}

TEST(IrSignatureTest, WritesNestedObjectsAndArrays) {
  EXPECT_EQ(
      Signature(R"({"at": {"type": "object", "properties":
                     {"lat": {"type": "number"}, "lon": {"type": "number"}},
                     "required": ["lat", "lon"]},
                   "tags": {"type": "array", "items": {"type": "string"}},
                   "rows": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}},
                   "any": {}, "free": {"type": "object"}, "raw": {"type": "array"}})",
                R"(["at", "tags", "rows", "any", "free", "raw"])"),
      "f(at:{lat:num,lon:num}, tags:str[], rows:int[][], any:any, free:obj, "
      "raw:list)");
}

TEST(IrSignatureTest, WritesUnionsFormatsAndReferences) {
  ToolSchema tool = Tool(
      R"({"a": {"anyOf": [{"type": "string"}, {"type": "null"}]},
          "b": {"type": ["integer", "string"]},
          "c": {"type": "string", "format": "date-time"},
          "d": {"$ref": "#/$defs/D"},
          "e": {"type": "array", "items": {"enum": ["x", "y"]}}})",
      R"(["b"])");
  tool.parameters["$defs"] = {{"D", {{"type", "number"}}}};
  EXPECT_EQ(IrSignature(tool),
            "f(a?, b:int|str, c?:datetime, d?:num, e?:(x|y)[])");
}

TEST(IrSignatureTest, QuotesWhatWouldReadAsSyntax) {
  ToolSchema tool = Tool(
      R"({"a b": {}, "": {"enum": ["1", 1, "true", "int", "x|y", "New York", " "]},
          "q\"": {"type": "string", "default": "a,b"}, "filter[name]": {"type": "string"}})",
      R"(["a b", "", "q\"", "filter[name]"])");
  tool.name = "GET /x/{id}";
  EXPECT_EQ(
      IrSignature(tool),
      R"--("GET /x/{id}"("a b":any, "":"1"|1|"true"|"int"|"x|y"|New York|" ", )--"
      R"--("q\""="a,b", "filter[name]"))--");
  ExpectNamesComeBack(tool);
}

TEST(IrSignatureTest, CutsLongEnumsAndDeepObjectsWithAnEllipsis) {
  EXPECT_EQ(Signature(R"({"n": {"enum": [1,2,3,4,5,6,7,8,9]}})", R"(["n"])"),
            "f(n:1|2|3|4|5|6|7|8|…)");
  const std::string deep = Signature(
      R"({"a": {"type": "object", "properties": {"b": {"type": "object",
          "properties": {"c": {"type": "object", "properties": {"d": {"type":
          "object", "properties": {"e": {"type": "string"}}}}}}}}}})");
  EXPECT_THAT(deep, HasSubstr("c?:"));
  EXPECT_THAT(deep, Not(HasSubstr("e?")));
}

TEST(IrSignatureTest, EndsReferenceCycles) {
  ToolSchema tool =
      Tool(R"({"a": {"$ref": "#/properties/a"}, "n": {"$ref": "#/$defs/N"}})");
  tool.parameters["$defs"] =
      ParseJson(
          R"({"N": {"type": "object", "properties": {"next": {"$ref": "#/$defs/N"}}}})",
          "test")
          .value();
  // Where a reference comes round again, anything may stand.
  EXPECT_EQ(IrSignature(tool), "f(a?:any, n?:{next?:any})");
  ExpectNamesComeBack(tool);
}

TEST(IrSignatureTest, PurposeIsTheFirstClauseWithinItsBudget) {
  const auto purpose = [](const std::string& description) {
    const std::string text = IrSignature(Tool("{}", "[]", description));
    return text.substr(std::min(text.size(), std::string("f() ").size()));
  };
  EXPECT_EQ(purpose("Gets it. Then more."), "Gets it");
  EXPECT_EQ(purpose("\n\n# Gets v1.2 of it (quickly)"), "Gets v1.2 of it");
  EXPECT_EQ(purpose(""), "");
  EXPECT_EQ(
      purpose("One two three four five six seven eight nine ten the of to "
              "a for"),
      "One two three four five six seven eight nine ten");
}

TEST(IrSignatureTest, KeepsNamesOfASchemaWithoutProperties) {
  ToolSchema tool;
  tool.name = "t";
  EXPECT_EQ(IrSignature(tool), "t()");
  ExpectNamesComeBack(tool);
}

TEST(IrSignatureTest, ErrorsNameTheOffset) {
  for (const auto& [text, offset] :
       std::vector<std::pair<const char*, const char*>>{
           {"", "offset 0"},
           {"f", "offset 1"},
           {"f(", "offset 2"},
           {"f(a", "offset 3"},
           {"f(a,b)", "offset 4"},
           {"f(\"a", "offset 4"},
           {"f(a:{)", "offset 6"},
           {"f(a:x]", "offset 5"}}) {
    const auto names = ParameterNames(text);
    ASSERT_FALSE(names.ok()) << text;
    EXPECT_THAT(names.status().message(), HasSubstr(offset)) << text;
  }
}

TEST(IrSignatureTest, NamesComeBackForEveryToolOfTheSamples) {
  std::vector<std::string> paths = testing::SampleRegistries();
  for (std::string& path : testing::RoutingRegistries()) {
    paths.push_back(std::move(path));
  }
  size_t tools_seen = 0;
  for (const std::string& path : paths) {
    std::vector<std::string> skipped;
    const auto tools = ReadRegistryFile(path, &skipped);
    if (!tools.ok()) continue;  // not a registry: queries, ground truth
    for (const ToolSchema& tool : *tools) ExpectNamesComeBack(tool);
    tools_seen += tools->size();
  }
  EXPECT_GE(tools_seen, 20u);
  RecordProperty("tools", static_cast<int>(tools_seen));
}

}  // namespace
}  // namespace nexus::schema
