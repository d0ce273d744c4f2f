#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "nexus/base/test_util.h"
#include "nexus/schema/argument_validator.h"
#include "nexus/schema/canonical_json.h"
#include "nexus/schema/grammar_pattern.h"
#include "nexus/schema/testing/sample_registries.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::schema {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Json Parse(std::string_view text) { return ParseJson(text, "test").value(); }

// The relaxed form of one property "p", and what was dropped.
struct Property {
  std::string schema;
  std::vector<std::string> dropped;
};

Property Relax(std::string_view property, int level = 0,
               std::string_view beside = "") {
  const Json parameters =
      Parse(R"({"type": "object", "properties": {"p": )" +
            std::string(property) + "}" + std::string(beside) + "}");
  RelaxedSchema relaxed = RelaxForGrammar(parameters, level);
  return {DumpJson(relaxed.schema["properties"]["p"]),
          std::move(relaxed.dropped)};
}

TEST(GrammarRelaxTest, ClosesObjectsAndKeepsTheAuthorsOrder) {
  const RelaxedSchema relaxed =
      RelaxForGrammar(Parse(R"({"type": "object", "title": "T", "properties":
                 {"z": {"type": "string"}, "a": {"type": "integer"}}, "required": ["a"]})"),
                      0);
  EXPECT_EQ(
      DumpJson(relaxed.schema),
      R"({"type":"object","properties":{"z":{"type":"string"},"a":{"type":"integer"}},)"
      R"("required":["a"],"additionalProperties":false})");
  EXPECT_THAT(relaxed.dropped, IsEmpty());
}

TEST(GrammarRelaxTest, OpensOnlyWhatTheSchemaOpens) {
  EXPECT_EQ(RelaxForGrammar(Parse(R"({"type": "object", "properties": {}})"), 0)
                .schema["additionalProperties"],
            false);
  EXPECT_EQ(
      RelaxForGrammar(
          Parse(R"({"properties": {"a": {}}, "additionalProperties": true})"),
          0)
          .schema["additionalProperties"],
      true);
  EXPECT_EQ(
      Relax(R"({"type": "object", "additionalProperties": {"type": "int"}})")
          .schema,
      R"({"type":"object","properties":{},"additionalProperties":{"type":"integer"}})");
  // Free: an object that names nothing.
  EXPECT_EQ(Relax(R"({"type": "object"})").schema, R"({"type":"object"})");
  // The converter can't write the names' complement.
  EXPECT_EQ(
      RelaxForGrammar(
          Parse(R"({"properties": {"a]b": {}}, "additionalProperties": true})"),
          0)
          .schema["additionalProperties"],
      false);
}

TEST(GrammarRelaxTest, RewritesOrDropsPatterns) {
  EXPECT_THAT(Relax(R"({"type": "string", "pattern": "^\\d{4}-\\w+$"})").schema,
              HasSubstr("[0-9]{4,4}"));
  const Property look_ahead =
      Relax(R"({"type": "string", "pattern": "^(?=.*a).{8,}$"})");
  EXPECT_EQ(look_ahead.schema, R"({"type":"string"})");
  EXPECT_THAT(look_ahead.dropped, ElementsAre("properties.p: pattern"));
  EXPECT_EQ(Relax(R"({"type": "string", "pattern": "^a$"})", 1).schema,
            R"({"type":"string"})");
}

TEST(GrammarRelaxTest, DropsHugeLengthsAndCounts) {
  EXPECT_EQ(Relax(R"({"type": "string", "maxLength": 200})").schema,
            R"({"type":"string","maxLength":200})");
  const Property huge = Relax(R"({"type": "string", "maxLength": 10000})");
  EXPECT_EQ(huge.schema, R"({"type":"string"})");
  EXPECT_THAT(huge.dropped, ElementsAre("properties.p: maxLength"));
  EXPECT_EQ(
      Relax(
          R"({"type": "array", "items": {"type": "array", "items": {"type": "number"}, "maxItems": 5000}, "minItems": 2, "maxItems": 2})")
          .schema,
      R"({"type":"array","items":{"type":"array","items":{"type":"number"}},"minItems":2,"maxItems":2})");
  EXPECT_EQ(
      Relax(R"({"type": "string", "minLength": 5, "maxLength": 2})").schema,
      R"({"type":"string"})");
  EXPECT_EQ(Relax(R"({"type": "string", "maxLength": "9"})").schema,
            R"({"type":"string"})");
}

TEST(GrammarRelaxTest, RoundsIntegerRangesInwards) {
  EXPECT_EQ(
      Relax(R"({"type": "integer", "minimum": 0.5, "exclusiveMaximum": 10})")
          .schema,
      R"({"type":"integer","minimum":1,"maximum":9})");
  EXPECT_EQ(
      Relax(R"({"type": "integer", "minimum": 3, "exclusiveMinimum": true})")
          .schema,
      R"({"type":"integer","minimum":4})");
  EXPECT_EQ(Relax(R"({"type": "integer", "maximum": 1e300})").schema,
            R"({"type":"integer"})");
  EXPECT_EQ(Relax(R"({"type": "integer", "minimum": 5, "maximum": 4})").schema,
            R"({"type":"integer"})");
  EXPECT_THAT(Relax(R"({"type": "number", "minimum": 3})").dropped,
              ElementsAre("properties.p: minimum"));
}

TEST(GrammarRelaxTest, ListsWhatGrammarsCannotSay) {
  const Property property =
      Relax(R"({"type": "integer", "multipleOf": 2, "not": {"const": 4}})");
  EXPECT_EQ(property.schema, R"({"type":"integer"})");
  EXPECT_THAT(property.dropped,
              ElementsAre("properties.p: multipleOf", "properties.p: not"));
  EXPECT_THAT(Relax(R"({"type": "array", "uniqueItems": true})").dropped,
              ElementsAre("properties.p: uniqueItems"));
  EXPECT_THAT(
      Relax(R"({"type": "object", "patternProperties": {"^x": {}}})").dropped,
      ElementsAre("properties.p: patternProperties"));
}

TEST(GrammarRelaxTest, KeepsKnownFormatsOnly) {
  EXPECT_EQ(Relax(R"({"type": "string", "format": "date-time"})").schema,
            R"({"type":"string","format":"date-time"})");
  EXPECT_EQ(Relax(R"({"type": "string", "format": "email"})").schema,
            R"({"type":"string"})");
  EXPECT_EQ(Relax(R"({"type": "string", "format": 5})").schema,
            R"({"type":"string"})");
}

TEST(GrammarRelaxTest, TurnsTypeListsAndNullableIntoAnyOf) {
  EXPECT_EQ(Relax(R"({"type": ["string", "null"], "maxLength": 3})").schema,
            R"({"anyOf":[{"type":"string","maxLength":3},{"type":"null"}]})");
  EXPECT_EQ(Relax(R"({"type": "integer", "nullable": true})").schema,
            R"({"anyOf":[{"type":"integer"},{"type":"null"}]})");
}

TEST(GrammarRelaxTest, AnyOfWithoutTypesIsAnyValue) {
  const Property property =
      Relax(R"({"anyOf": [{"description": "x"}, {"minimum": 3}]})");
  EXPECT_EQ(property.schema, R"({"description":"any value"})");
  EXPECT_THAT(property.dropped,
              Contains("properties.p: alternatives without a type"));
  // The type beside it holds for its members.
  EXPECT_EQ(
      Relax(
          R"({"type": "string", "anyOf": [{"maxLength": 2}, {"format": "date"}]})")
          .schema,
      R"({"anyOf":[{"type":"string","maxLength":2},{"type":"string","format":"date"}]})");
}

TEST(GrammarRelaxTest, AnyOfBesidePropertiesIsLeftToTheValidator) {
  const RelaxedSchema relaxed = RelaxForGrammar(
      Parse(
          R"({"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]})"),
      0);
  EXPECT_EQ(relaxed.schema["properties"].size(), 2u);
  EXPECT_FALSE(relaxed.schema.contains("anyOf"));
}

TEST(GrammarRelaxTest, MergesAllOf) {
  const RelaxedSchema relaxed = RelaxForGrammar(
      Parse(
          R"({"allOf": [{"properties": {"b": {"type": "integer"}}, "required": ["b"]}, {"$ref": "#/$defs/c"}],
                "properties": {"a": {"type": "string"}}, "$defs": {"c": {"properties": {"c": {"const": 1}}, "required": ["c"]}}})"),
      0);
  EXPECT_EQ(
      DumpJson(relaxed.schema),
      R"({"type":"object","properties":{"a":{"type":"string"},"b":{"type":"integer"},"c":{"const":1}},)"
      R"("required":["b","c"],"additionalProperties":false})");
}

TEST(GrammarRelaxTest, InlinesReferencesAndCutsCycles) {
  EXPECT_EQ(Relax(R"({"$ref": "#/$defs/a~1b"})", 0,
                  R"(, "$defs": {"a/b": {"type": "boolean"}})")
                .schema,
            R"({"type":"boolean"})");
  const Property tree = Relax(
      R"({"$ref": "#/$defs/N"})", 0,
      R"(, "$defs": {"N": {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/N"}}}}})");
  EXPECT_EQ(
      tree.schema,
      R"({"type":"object","properties":{"kids":{"type":"array","items":{"description":"any value"}}},"additionalProperties":false})");
  EXPECT_THAT(tree.dropped, ElementsAre(HasSubstr("$ref cycle")));
  EXPECT_EQ(Relax(R"({"$ref": "#/properties/p"})").schema,
            R"({"description":"any value"})");
  EXPECT_THAT(Relax(R"({"$ref": "http://e.com/x"})").dropped,
              ElementsAre(HasSubstr("can't be followed")));
  // Twice the same target side by side is no cycle.
  EXPECT_EQ(
      Relax(
          R"({"anyOf": [{"$ref": "#/$defs/s"}, {"type": "array", "items": {"$ref": "#/$defs/s"}}]})",
          0, R"(, "$defs": {"s": {"type": "string"}})")
          .schema,
      R"({"anyOf":[{"type":"string"},{"type":"array","items":{"type":"string"}}]})");
}

TEST(GrammarRelaxTest, BoundsReferencesThatMultiply) {
  // Each definition uses the next one twice: 2^60 schemas when inlined.
  Json schema = {{"properties", {{"p", {{"$ref", "#/$defs/d0"}}}}},
                 {"$defs", Json::object()}};
  for (int i = 0; i < 60; ++i) {
    const Json next = {{"$ref", "#/$defs/d" + std::to_string(i + 1)}};
    schema["$defs"]["d" + std::to_string(i)] = {
        {"properties", {{"l", next}, {"r", next}}}};
  }
  const RelaxedSchema relaxed = RelaxForGrammar(schema, 0);
  EXPECT_LT(DumpJson(relaxed.schema).size(), 2u << 20);
  EXPECT_THAT(relaxed.dropped, Not(IsEmpty()));
}

TEST(GrammarRelaxTest, WritesTuplesOfFixedLength) {
  EXPECT_EQ(
      Relax(
          R"({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": false})")
          .schema,
      R"({"type":"array","prefixItems":[{"type":"integer"},{"type":"string"}]})");
  EXPECT_EQ(
      Relax(
          R"({"type": "tuple", "items": [{"type": "integer"}], "minItems": 2})")
          .dropped.back(),
      "properties.p: tuple items");
}

TEST(GrammarRelaxTest, RequiredButUndescribedIsAnyValue) {
  EXPECT_EQ(
      RelaxForGrammar(Parse(R"({"properties": {}, "required": ["x"]})"), 0)
          .schema["properties"]
          .dump(),
      R"({"x":{"description":"any value"}})");
}

TEST(GrammarRelaxTest, HigherLevelsKeepLess) {
  const char* property =
      R"({"type": "array", "maxItems": 3, "items": {"type": "string", "enum": ["a"]}})";
  EXPECT_THAT(Relax(property, 1).schema, HasSubstr("maxItems"));
  EXPECT_EQ(Relax(property, 2).schema,
            R"({"type":"array","items":{"enum":["a"]}})");
  EXPECT_EQ(Relax(property, 3).schema, R"({"description":"any value"})");
  EXPECT_EQ(Relax(property, 99).schema, Relax(property, 3).schema);
}

TEST(GrammarRelaxTest, MalformedSchemasStillGiveAnObject) {
  for (
      const char* schema :
      {"5", "[]", "null", R"({"type": 5, "properties": 3, "required": {}})",
       R"({"properties": {"a": {"enum": 5, "items": 3, "anyOf": {}, "type": []}}})",
       R"({"$ref": "#"})", R"({"allOf": [{"$ref": "#"}, 5]})",
       R"({"anyOf": []})", R"({"type": "string"})",
       R"({"anyOf": [{"type": "string"}]})"}) {
    for (int level = 0; level <= kMaxRelaxLevel; ++level) {
      EXPECT_EQ(RelaxForGrammar(Parse(schema), level).schema["type"], "object")
          << schema;
    }
  }
}

// Every property name survives at each level, and nothing the converter trips
// over is left.
void ExpectConvertible(const Json& schema) {
  if (!schema.is_object()) return;
  for (const char* poison : {"$ref", "allOf", "oneOf", "not", "multipleOf",
                             "patternProperties", "nullable"}) {
    EXPECT_FALSE(schema.contains(poison)) << schema;
  }
  EXPECT_FALSE(schema.empty());
  if (schema.contains("type")) {
    EXPECT_TRUE(schema["type"].is_string()) << schema;
  }
  if (schema.contains("properties")) {
    for (const auto& [name, child] : schema["properties"].items()) {
      ExpectConvertible(child);
    }
  }
  for (const char* key : {"anyOf", "prefixItems"}) {
    if (!schema.contains(key)) continue;
    for (const Json& child : schema[key]) ExpectConvertible(child);
  }
  if (schema.contains("items")) ExpectConvertible(schema["items"]);
}

TEST(GrammarRelaxTest, EverySampleToolBecomesConvertible) {
  std::vector<std::string> paths = testing::SampleRegistries();
  for (std::string& path : testing::RoutingRegistries())
    paths.push_back(std::move(path));
  for (const std::string& path : paths) {
    std::vector<std::string> skipped;
    const auto tools = ReadRegistryFile(path, &skipped);
    if (!tools.ok()) continue;  // not a registry
    for (const ToolSchema& tool : *tools) {
      for (int level = 0; level <= kMaxRelaxLevel; ++level) {
        const Json schema = RelaxForGrammar(tool.parameters, level).schema;
        ExpectConvertible(schema);
        if (!schema.contains("properties") ||
            !tool.parameters.contains("properties"))
          continue;
        for (const auto& [name, property] :
             tool.parameters["properties"].items()) {
          EXPECT_TRUE(schema["properties"].contains(name))
              << tool.name << " " << name;
        }
      }
    }
  }
}

TEST(GrammarPatternTest, WritesPositiveClassesOnly) {
  using internal::PatternForGrammar;
  EXPECT_EQ(PatternForGrammar("^[A-Z]{3}$"), "^([A-Z]{3,3})$");
  EXPECT_EQ(PatternForGrammar(R"(^\d+(?:\.\d{1,2})?$)"),
            R"(^([0-9]+([\x2E][0-9]{1,2})?)$)");
  EXPECT_EQ(PatternForGrammar("^(a|b)c*?$"), "^((a|b)c*)$");
  EXPECT_EQ(
      PatternForGrammar("^[^a-z]$"),
      R"(^([\x20-\x21\x23-\x5B\x5D-\x60\x7B-\x7E\u0080-\uD7FF\uE000-\U0010FFFF])$)");
  EXPECT_EQ(PatternForGrammar("^é$"), R"(^([\u00E9])$)");
  const std::string any =
      R"([\x20-\x21\x23-\x5B\x5D-\x7E\u0080-\uD7FF\uE000-\U0010FFFF]*)";
  EXPECT_EQ(PatternForGrammar("a"), "^" + any + "(a)" + any + "$");
  EXPECT_EQ(PatternForGrammar(R"(^a\$)"), R"(^(a[\x24]))" + any + "$");
}

TEST(GrammarPatternTest, RefusesWhatHasNoEquivalent) {
  for (const char* pattern : {"^(?=a)b$",
                              "^(?!a)b$",
                              "(?<=a)b",
                              "(?<n>a)",
                              R"((a)\1)",
                              R"(^\bword\b$)",
                              R"(\p{L})",
                              "^a|b$",
                              "a$b",
                              "^$",
                              "",
                              "^(|a)$",
                              "^a{1,10000}$",
                              "^(a{200}){200}$",
                              "^[$",
                              "^(a$",
                              "^a)$",
                              "^*$",
                              "^a{2,1}$",
                              "^a{x}$",
                              "^\"$",
                              R"(^\\$)",
                              "^\n$",
                              "^a**$",
                              R"(^a\)",
                              "^[z-a]$",
                              "^[]$",
                              R"(^\x4$)",
                              R"(^\u00$)"}) {
    EXPECT_EQ(internal::PatternForGrammar(pattern), std::nullopt) << pattern;
  }
  EXPECT_EQ(internal::PatternForGrammar(std::string(600, 'a')), std::nullopt);
  std::string nested = "a";
  for (int i = 0; i < 100; ++i) nested = "(" + nested + ")";
  EXPECT_EQ(internal::PatternForGrammar(nested), std::nullopt);
}

}  // namespace
}  // namespace nexus::schema
