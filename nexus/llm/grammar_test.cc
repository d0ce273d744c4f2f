#include "nexus/llm/grammar.h"

#include <chrono>
#include <string>

#include "gtest/gtest.h"

#include "nexus/base/json.h"
#include "nexus/base/test_util.h"
#include "nexus/llm/gbnf.h"
#include "nexus/llm/grammar_matcher.h"
#include "nexus/llm/grammar_schemas_for_test.h"
#include "nexus/llm/testing/tiny_model.h"

namespace nexus::llm {
namespace {

class GrammarTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string path = dir_.File("tiny.gguf");
    ASSERT_OK(testing::WriteTinyModel(path, {}));
    ASSERT_OK_AND_ASSIGN(model_, Model::Load({.path = path}));
  }

  bool Allows(const std::string& schema, const std::string& text) {
    auto grammar = JsonSchemaToGrammar(*model_, schema);
    NEXUS_CHECK(grammar.ok());
    auto program = ParseGbnf(*grammar);
    NEXUS_CHECK(program.ok());
    GrammarMatcher matcher(*std::move(program));
    auto state = matcher.start();
    for (char c : text) {
      if (state == GrammarMatcher::kDead) return false;
      state = matcher.Step(state, static_cast<uint8_t>(c));
    }
    return state != GrammarMatcher::kDead && matcher.Accepts(state);
  }

  ScopedTempDir dir_;
  std::shared_ptr<const Model> model_;
};

std::string WithProperty(const std::string& schema) {
  return R"({"type":"object","properties":{"p":)" + schema +
         R"(},"required":["p"]})";
}

TEST_F(GrammarTest, TakesSchemasOfRealTools) {
  for (const char* schema : kGoodSchemas) {
    const auto grammar = JsonSchemaToGrammar(*model_, schema);
    EXPECT_TRUE(grammar.ok()) << schema << grammar.status();
  }
}

TEST_F(GrammarTest, RefusesOthersWithAReason) {
  for (const char* schema : kRefusedSchemas) {
    const auto grammar = JsonSchemaToGrammar(*model_, schema);
    ASSERT_FALSE(grammar.ok()) << schema << "\n" << *grammar;
    EXPECT_EQ(grammar.status().code(), StatusCode::kUnimplemented) << schema;
    EXPECT_GT(grammar.status().message().size(), 10U);
  }
  EXPECT_FALSE(JsonSchemaToGrammar(*model_, "").ok());
  EXPECT_FALSE(JsonSchemaToGrammar(*model_, "{\"type\":").ok());
  EXPECT_FALSE(JsonSchemaToGrammar(*model_, kGoodSchemas[2], 10).ok());
}

TEST_F(GrammarTest, AllowsWhatTheSchemaSays) {
  const std::string city =
      R"({"type":"object","properties":{"city":{"type":"string"},"n":{"type":"integer","minimum":1,"maximum":20}},"required":["city"]})";
  EXPECT_TRUE(Allows(city, R"({"city":"Oslo"})"));
  EXPECT_TRUE(Allows(city, R"({ "city": "Os\"lo", "n": 20 })"));
  EXPECT_FALSE(Allows(city, R"({"n":3})"));
  EXPECT_FALSE(Allows(city, R"({"city":"Oslo","n":21})"));
  EXPECT_FALSE(Allows(city, R"({"city":"Oslo","x":1})"));
  EXPECT_FALSE(Allows(city, R"({"city":"Os)"
                            "\n"
                            R"(lo"})"));
  EXPECT_TRUE(Allows(WithProperty("{}"), R"({"p":7})"));
  EXPECT_TRUE(Allows(WithProperty("{}"), R"({"p":{"deep":[1,"x"]}})"));
  EXPECT_TRUE(
      Allows(WithProperty(R"({"type":"integer","exclusiveMinimum":0.5})"),
             R"({"p":1})"));
  EXPECT_FALSE(
      Allows(WithProperty(R"({"type":"integer","exclusiveMaximum":5.5})"),
             R"({"p":6})"));
  EXPECT_TRUE(
      Allows(WithProperty(R"({"type":"integer","exclusiveMaximum":5.5})"),
             R"({"p":5})"));
  const std::string alternatives =
      R"({"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"anyOf":[{"required":["a"]},{"required":["b"]}]})";
  EXPECT_TRUE(Allows(alternatives, R"({"b":"x"})"));
  EXPECT_FALSE(Allows(alternatives, R"("x")"));
  EXPECT_TRUE(Allows(WithProperty(R"({"type":"string","pattern":"^.*$"})"),
                     R"({"p":"ab"})"));
  EXPECT_FALSE(Allows(WithProperty(R"({"type":"string","pattern":"^.*$"})"),
                      R"({"p":"a"b"})"));
}

TEST_F(GrammarTest, HostileSchemasAreRefusedInTime) {
  const auto start = std::chrono::steady_clock::now();
  std::string deep = R"({"type":"string"})";
  for (int i = 0; i < 60; ++i) deep = WithProperty(deep);
  EXPECT_FALSE(JsonSchemaToGrammar(*model_, deep).ok());
  std::string deeper(20000, '[');
  EXPECT_FALSE(JsonSchemaToGrammar(*model_, deeper).ok());

  std::string types = R"({"type":"string"})";
  for (int i = 0; i < 15; ++i) {
    types =
        R"({"type":["object","object","object","object"],"properties":{"p":)" +
        types + "}}";
  }
  EXPECT_FALSE(JsonSchemaToGrammar(*model_, types).ok());

  std::string wide = R"({"type":"object","properties":{"p0":{})";
  for (int i = 1; i < 5000; ++i) {
    wide += ",\"p" + std::to_string(i) + "\":{\"type\":\"string\"}";
  }
  EXPECT_FALSE(JsonSchemaToGrammar(*model_, wide + "}}").ok());

  const std::string big(5 << 20, 'x');
  EXPECT_FALSE(
      JsonSchemaToGrammar(*model_, R"({"description":")" + big + R"("})").ok());

  std::string arrays = R"({"type":"string","maxLength":1000})";
  for (int i = 0; i < 6; ++i) {
    arrays = R"({"type":"array","maxItems":1000,"items":)" + arrays + "}";
  }
  EXPECT_OK(JsonSchemaToGrammar(*model_, WithProperty(arrays)));
  const std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - start;
  EXPECT_LT(taken.count(), 10.0);
}

TEST_F(GrammarTest, ManyOptionalPropertiesConvertInTime) {
  std::string schema =
      R"({"type":"object","properties":{"p0":{"type":"string"})";
  for (int i = 1; i < 120; ++i) {
    schema += ",\"p" + std::to_string(i) + "\":{\"type\":\"string\"}";
  }
  const auto start = std::chrono::steady_clock::now();
  EXPECT_OK(JsonSchemaToGrammar(*model_, schema + "}}"));
  const std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - start;
  EXPECT_LT(taken.count(), 5.0);
}

}  // namespace
}  // namespace nexus::llm
