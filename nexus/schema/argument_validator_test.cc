#include "nexus/schema/argument_validator.h"

#include <chrono>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "nexus/base/test_util.h"
#include "nexus/schema/testing/sample_registries.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::schema {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Json Parse(std::string_view text) { return ParseJson(text, "test").value(); }

std::unique_ptr<ArgumentValidator> Make(std::string_view schema) {
  auto validator = ArgumentValidator::Create(Parse(schema));
  EXPECT_TRUE(validator.ok()) << validator.status() << " for " << schema;
  return validator.ok() ? std::move(validator).value() : nullptr;
}

std::string CreateError(std::string_view schema) {
  auto validator = ArgumentValidator::Create(Parse(schema));
  EXPECT_FALSE(validator.ok()) << schema;
  EXPECT_EQ(validator.status().code(), StatusCode::kInvalidArgument);
  return validator.status().message();
}

bool Accepts(std::string_view schema, std::string_view arguments) {
  const auto validator = Make(schema);
  return validator != nullptr && validator->Validate(Parse(arguments)).ok();
}

TEST(ArgumentValidatorTest, NamesPathsAndKeepsMessagesShort) {
  const auto validator = Make(
      R"({"type": "object", "required": ["city"], "additionalProperties": false,
          "properties": {"city": {"type": "string"},
                         "at": {"type": "array", "items": {"type": "integer"}}}})");
  EXPECT_OK(validator->Validate(Parse(R"({"city": "x", "at": [1, 2]})")));
  const Status wrong =
      validator->Validate(Parse(R"({"city": 5, "at": [1, "two"], "z": 1})"));
  EXPECT_EQ(wrong.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(wrong.message(), AllOf(HasSubstr("city: "), HasSubstr("at[1]: "),
                                     Not(HasSubstr("<root>"))));
  EXPECT_LT(wrong.message().size(), 700u);
  EXPECT_THAT(validator->Validate(Parse("{}")).message(), HasSubstr("city"));
}

TEST(ArgumentValidatorTest, ChecksWhatGrammarsCannot) {
  EXPECT_FALSE(
      Accepts(R"({"properties": {"n": {"multipleOf": 5}}})", R"({"n": 7})"));
  EXPECT_TRUE(
      Accepts(R"({"properties": {"n": {"multipleOf": 5}}})", R"({"n": 10})"));
  EXPECT_FALSE(Accepts(R"({"properties": {"a": {"uniqueItems": true}}})",
                       R"({"a": [1, 1]})"));
  EXPECT_FALSE(Accepts(R"({"properties": {"n": {"not": {"const": 13}}}})",
                       R"({"n": 13})"));
  EXPECT_FALSE(
      Accepts(R"({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]})",
              R"({"c": 1})"));
  EXPECT_FALSE(
      Accepts(R"({"if": {"required": ["a"]}, "then": {"required": ["b"]}})",
              R"({"a": 1})"));
}

TEST(ArgumentValidatorTest, ChecksPatternsWithLookAhead) {
  const char* schema =
      R"({"properties": {"p": {"pattern": "^(?=.*[A-Z])(?=.*\\d).{8,}$"}}})";
  EXPECT_TRUE(Accepts(schema, R"({"p": "Secret123"})"));
  const Status wrong = Make(schema)->Validate(Parse(R"({"p": "secret"})"));
  EXPECT_THAT(wrong.message(), HasSubstr("p: doesn't match the pattern"));
}

TEST(ArgumentValidatorTest, LeavesPatternsUncheckedThatItCannotRead) {
  for (const char* pattern :
       {R"((?<=a)b)", R"(\\p{L}+)", R"((?<n>a))", "(((", "(a{1000}){1000}"}) {
    EXPECT_TRUE(Accepts(R"({"properties": {"p": {"pattern": ")" +
                            std::string(pattern) + R"("}}})",
                        R"({"p": "zzz"})"))
        << pattern;
  }
}

TEST(ArgumentValidatorTest, HostilePatternsEndInTime) {
  const auto start = std::chrono::steady_clock::now();
  const std::string text(4000, 'a');
  for (const char* pattern :
       {"^(a+)+$", "^(a|aa)+$", "(a*)*b", "^(a{1,50}){1,20}$"}) {
    const auto validator = Make(R"({"properties": {"p": {"pattern": ")" +
                                std::string(pattern) + R"("}}})");
    const Status status = validator->Validate(Json{{"p", text + "!"}});
    EXPECT_FALSE(status.ok()) << pattern;
  }
  // Too long to be matched at all.
  EXPECT_OK(Make(R"({"properties": {"p": {"pattern": "^b$"}}})")
                ->Validate(Json{{"p", std::string(1 << 20, 'a')}}));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
}

TEST(ArgumentValidatorTest, FollowsLocalReferences) {
  const char* schema = R"({
      "properties": {"root": {"$ref": "#/$defs/no~1de"}},
      "$defs": {"no/de": {"type": "object", "required": ["v"], "properties":
        {"v": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/no~1de"}}}}}})";
  EXPECT_TRUE(
      Accepts(schema, R"({"root": {"v": 1, "kids": [{"v": 2, "kids": []}]}})"));
  const Status wrong = Make(schema)->Validate(
      Parse(R"({"root": {"v": 1, "kids": [{"v": "x"}]}})"));
  EXPECT_THAT(wrong.message(), HasSubstr("root.kids[0].v: "));
  // A reference into a property, through the root, and with keywords beside it.
  EXPECT_FALSE(Accepts(
      R"({"properties": {"a": {"type": "integer"}, "b": {"$ref": "#/properties/a"}}})",
      R"({"b": "x"})"));
  EXPECT_FALSE(Accepts(
      R"({"properties": {"n": {"type": "integer"}, "sub": {"$ref": "#"}}})",
      R"({"sub": {"sub": {"n": "x"}}})"));
  EXPECT_FALSE(Accepts(
      R"({"properties": {"b": {"$ref": "#/$defs/i", "minimum": 3}}, "$defs": {"i": {"type": "integer"}}})",
      R"({"b": 1})"));
}

TEST(ArgumentValidatorTest, IgnoresIdsWhenResolving) {
  EXPECT_FALSE(Accepts(R"({"$id": "http://e.com/s", "id": "http://e.com/t",
      "properties": {"a": {"$ref": "#/$defs/i"}}, "$defs": {"i": {"type": "integer"}}})",
                       R"({"a": "x"})"));
}

TEST(ArgumentValidatorTest, RefusesReferencesThatCannotBeFollowed) {
  EXPECT_THAT(
      CreateError(R"({"properties": {"a": {"$ref": "http://e.com/x.json"}}})"),
      AllOf(HasSubstr("properties.a.$ref"), HasSubstr("not local")));
  EXPECT_THAT(CreateError(R"({"properties": {"a": {"$ref": "#/$defs/none"}}})"),
              HasSubstr("names nothing"));
  EXPECT_THAT(CreateError(R"({"$ref": 5})"), HasSubstr("$ref"));
  for (
      const char* schema :
      {R"({"$ref": "#"})",
       R"({"properties": {"a": {"$ref": "#/properties/a"}}})",
       R"({"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"$ref": "#/$defs/y"}, "y": {"anyOf": [{"$ref": "#/$defs/x"}]}}})",
       R"({"$ref": "#/$defs/x", "$defs": {"x": {"not": {"allOf": [{"$ref": "#/$defs/x"}]}}}})"}) {
    EXPECT_THAT(CreateError(schema), HasSubstr("never ends")) << schema;
  }
}

TEST(ArgumentValidatorTest, UnderstandsOlderAndNewerDrafts) {
  // Draft 4: exclusiveMinimum is a flag. Later: a number.
  EXPECT_FALSE(Accepts(
      R"({"properties": {"n": {"minimum": 3, "exclusiveMinimum": true}}})",
      R"({"n": 3})"));
  EXPECT_TRUE(Accepts(
      R"({"properties": {"n": {"minimum": 3, "exclusiveMinimum": false}}})",
      R"({"n": 3})"));
  EXPECT_FALSE(Accepts(R"({"properties": {"n": {"exclusiveMaximum": 3}}})",
                       R"({"n": 3})"));
  // 2020-12: prefixItems, items: false, dependentRequired.
  const char* tuple =
      R"({"properties": {"t": {"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": false}}})";
  EXPECT_TRUE(Accepts(tuple, R"({"t": [1, "a"]})"));
  EXPECT_FALSE(Accepts(tuple, R"({"t": ["a", 1]})"));
  EXPECT_FALSE(Accepts(tuple, R"({"t": [1, "a", 2]})"));
  EXPECT_FALSE(
      Accepts(R"({"dependentRequired": {"a": ["b"]}})", R"({"a": 1})"));
  // OpenAPI's nullable, Python-minded names, boolean schemas.
  EXPECT_TRUE(
      Accepts(R"({"properties": {"a": {"type": "str", "nullable": true}}})",
              R"({"a": null})"));
  EXPECT_FALSE(
      Accepts(R"({"type": "dict", "properties": {"a": {"type": "float"}}})",
              R"({"a": "x"})"));
  EXPECT_FALSE(
      Accepts(R"({"properties": {"a": false, "b": true}})", R"({"a": 1})"));
  EXPECT_TRUE(
      Accepts(R"({"properties": {"a": false, "b": true}})", R"({"b": 1})"));
}

TEST(ArgumentValidatorTest, IgnoresFormatsAndUnknownKeywords) {
  EXPECT_TRUE(Accepts(
      R"({"properties": {"d": {"type": "string", "format": "date", "x-order": [1], "description": 5}}})",
      R"({"d": "not a date"})"));
}

TEST(ArgumentValidatorTest, MalformedKeywordsAreNamed) {
  for (const auto& [schema, where] :
       std::vector<std::pair<const char*, const char*>>{
           {R"({"properties": {"a": {"type": "strnig"}}})",
            "properties.a.type: unknown type"},
           {R"({"properties": {"a": 5}})", "properties.a: expected a schema"},
           {R"({"properties": {"a": {"enum": 5}}})", "properties.a.enum"},
           {R"({"required": [5]})", "required"},
           {R"({"anyOf": []})", "anyOf"},
           {R"({"allOf": [1]})", "allOf.0"},
           {R"({"properties": {"a": {"minLength": -1}}})",
            "properties.a.minLength"},
           {R"({"properties": {"a": {"minimum": "3"}}})",
            "properties.a.minimum"},
           {R"({"properties": {"a": {"multipleOf": 0}}})",
            "properties.a.multipleOf"},
           {R"({"properties": {"a": {"pattern": 1}}})",
            "properties.a.pattern"}}) {
    EXPECT_THAT(CreateError(schema), HasSubstr(where)) << schema;
  }
}

TEST(ArgumentValidatorTest, BoundsTheWorkOfBranchingSchemas) {
  // Each level doubles the work: 2^60 steps without the bound.
  std::string arguments = "1";
  for (int i = 0; i < 60; ++i) arguments = R"({"n": )" + arguments + "}";
  const auto validator = Make(
      R"({"$ref": "#/$defs/b", "$defs": {"b": {"properties": {"n": {"oneOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/b"}]}}}}})");
  EXPECT_EQ(validator->Validate(Parse(arguments)).code(),
            StatusCode::kResourceExhausted);
  // And works again afterwards.
  EXPECT_OK(validator->Validate(Parse("{}")));
}

TEST(ArgumentValidatorTest, BoundsTheArguments) {
  const auto validator = Make("{}");
  Json deep = 1;
  for (int i = 0; i < 70; ++i) deep = Json{{"a", deep}};
  EXPECT_THAT(validator->Validate(deep).message(), HasSubstr("64 levels"));
  EXPECT_FALSE(validator->Validate(Json{{"a", std::vector<int>(5000)}}).ok());
}

TEST(ArgumentValidatorTest, RefusesLongChainsOfReferences) {
  Json schema = {{"$ref", "#/$defs/d0"}, {"$defs", Json::object()}};
  for (int i = 0; i < 3000; ++i) {
    schema["$defs"]["d" + std::to_string(i)] = {
        {"properties",
         {{"n", {{"$ref", "#/$defs/d" + std::to_string((i + 1) % 3000)}}}}}};
  }
  const auto validator = ArgumentValidator::Create(schema);
  ASSERT_FALSE(validator.ok());
  EXPECT_THAT(validator.status().message(),
              HasSubstr("deeper than 512 levels"));
}

TEST(ArgumentValidatorTest, TakesWideSchemasInSeconds) {
  Json properties = Json::object();
  Json values = Json::array();
  for (int i = 0; i < 1000; ++i) {
    properties.push_back(
        {"p" + std::to_string(i),
         {{"type", "string"}, {"description", std::string(500, 'x')}}});
    values.push_back("v" + std::to_string(i));
  }
  properties["p0"]["enum"] = values;
  const auto validator =
      ArgumentValidator::Create(Json{{"properties", properties}});
  ASSERT_OK(validator);
  EXPECT_OK((*validator)->Validate(Json{{"p0", "v999"}}));
  EXPECT_FALSE((*validator)->Validate(Json{{"p0", "w"}}).ok());
}

TEST(ArgumentValidatorTest, ReadsEverySampleTool) {
  std::vector<std::string> paths = testing::SampleRegistries();
  for (std::string& path : testing::RoutingRegistries())
    paths.push_back(std::move(path));
  size_t refused = 0;
  size_t seen = 0;
  for (const std::string& path : paths) {
    std::vector<std::string> skipped;
    const auto tools = ReadRegistryFile(path, &skipped);
    if (!tools.ok()) continue;  // not a registry
    for (const ToolSchema& tool : *tools) {
      ++seen;
      const auto validator = ArgumentValidator::Create(tool.parameters);
      if (!validator.ok()) {
        ++refused;
        std::printf("%s: %s\n", tool.name.c_str(),
                    validator.status().message().c_str());
      } else {
        const Status status = (*validator)->Validate(Json::object());
        EXPECT_TRUE(status.ok() ||
                    status.code() == StatusCode::kInvalidArgument)
            << status;
      }
    }
  }
  // One in a thousand real tools may be malformed; of ours none is.
  EXPECT_LE(refused, seen / 1000);
  EXPECT_GE(seen, 20u);
}

}  // namespace
}  // namespace nexus::schema
