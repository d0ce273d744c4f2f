#include "nexus/eval/arg_match.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace nexus::eval {
namespace {

using ::testing::ElementsAre;

Json Parse(std::string_view text) {
  auto value = ParseJson(text, "test");
  EXPECT_TRUE(value.ok()) << value.status();
  return value.ok() ? *value : Json();
}

bool Same(std::string_view value, std::string_view accepted,
          ObjectLabels labels = ObjectLabels::kValues) {
  return SameValue(Parse(value), Parse(accepted), labels);
}

constexpr std::string_view kSchema = R"({"type": "object",
  "properties": {
    "city": {"type": "string"},
    "unit": {"type": "string", "enum": ["C", "F"]},
    "days": {"type": "array", "items": {"type": "integer"}},
    "place": {"type": ["object", "null"]}},
  "required": ["city"]})";

ArgMatch Match(std::string_view arguments, std::string_view accepted) {
  return MatchArguments(Parse(arguments), Parse(accepted), Parse(kSchema),
                        ObjectLabels::kValues);
}

TEST(ArgMatchTest, StringsLoseCaseAndMarks) {
  EXPECT_TRUE(Same(R"("New-York, NY")", R"("new york ny")"));
  EXPECT_TRUE(Same(R"("it's")", R"("it\"s")"));
  EXPECT_FALSE(Same(R"("a+b")", R"("ab")"));
  EXPECT_FALSE(Same(R"("5")", "5"));
}

TEST(ArgMatchTest, NumbersGoByValueAndBooleansAreNone) {
  EXPECT_TRUE(Same("5", "5.0"));
  EXPECT_TRUE(Same("-3", "-3"));
  EXPECT_FALSE(Same("5", "5.5"));
  EXPECT_FALSE(Same("9007199254740993", "9007199254740992"));
  EXPECT_FALSE(Same("true", "1"));
  EXPECT_TRUE(Same("null", "null"));
  EXPECT_FALSE(Same("null", "0"));
}

TEST(ArgMatchTest, ArraysKeepTheirOrder) {
  EXPECT_TRUE(Same(R"([1, "A b"])", R"([1.0, "ab"])"));
  EXPECT_FALSE(Same("[1, 2]", "[2, 1]"));
  EXPECT_FALSE(Same("[1]", "[1, 2]"));
}

TEST(ArgMatchTest, ObjectsHoldValuesOrListsOfThem) {
  EXPECT_TRUE(Same(R"({"b": 2, "a": [1]})", R"({"a": [1], "b": 2})"));
  EXPECT_FALSE(Same(R"({"a": 1})", R"({"a": [1]})"));
  EXPECT_FALSE(Same(R"({"a": 1})", R"({"a": 1, "b": ""})"));

  const auto accepted = ObjectLabels::kAccepted;
  EXPECT_TRUE(Same(R"({"a": 2})", R"({"a": [1, 2]})", accepted));
  EXPECT_FALSE(Same(R"({"a": 3})", R"({"a": [1, 2]})", accepted));
  EXPECT_TRUE(Same(R"({"a": 1})", R"({"a": [1], "b": ["", 7]})", accepted));
  EXPECT_FALSE(Same(R"({"a": 1})", R"({"a": [1], "b": [7]})", accepted));
  EXPECT_FALSE(Same(R"({"a": 1, "c": 1})", R"({"a": [1]})", accepted));
  EXPECT_TRUE(Same(R"([{"a": 1}])", R"([{"a": [1]}])", accepted));
}

TEST(ArgMatchTest, OneOfTheAcceptedValuesIsEnough) {
  EXPECT_TRUE(
      Match(R"({"city": "Paris"})", R"({"city": ["Lyon", "paris"]})").exact());
  EXPECT_THAT(Match(R"({"city": "Rome"})", R"({"city": ["Lyon"]})").faults,
              ElementsAre(R"(city: "Rome" not in ["Lyon"])"));
}

TEST(ArgMatchTest, AnEmptyStringAmongTheAcceptedAllowsLeavingOut) {
  const auto label = R"({"city": ["Paris"], "unit": ["", "C"]})";
  EXPECT_TRUE(Match(R"({"city": "Paris"})", label).exact());
  EXPECT_TRUE(Match(R"({"city": "Paris", "unit": "C"})", label).exact());
  EXPECT_THAT(Match(R"({"unit": "C"})", label).faults,
              ElementsAre("city: missing"));
}

TEST(ArgMatchTest, CountsInventedOptionalArgumentsOnly) {
  const auto label = R"({"city": ["Paris"], "unit": ["", "C"]})";
  // May be left out, and its value is wrong.
  EXPECT_EQ(Match(R"({"city": "Paris", "unit": "F"})", label).invented_optional,
            1);
  // Not in the label.
  const ArgMatch unasked = Match(R"({"city": "Paris", "days": [1]})", label);
  EXPECT_EQ(unasked.invented_optional, 1);
  EXPECT_THAT(unasked.faults, ElementsAre("days: not in the label"));
  // Wrong, but asked for.
  EXPECT_EQ(Match(R"({"city": "P", "unit": "F"})",
                  R"({"city": ["P"], "unit": ["C"]})")
                .invented_optional,
            0);
  EXPECT_EQ(Match(R"({"city": "Rome"})", label).invented_optional, 0);
}

TEST(ArgMatchTest, MalformedInputIsAFault) {
  EXPECT_FALSE(Match("[]", R"({"city": ["Paris"]})").exact());
  EXPECT_FALSE(Match(R"({"city": "Paris"})", "null").exact());
  EXPECT_FALSE(Match(R"({"city": "Paris"})", R"({"city": "Paris"})").exact());
  EXPECT_EQ(MatchArguments(Parse(R"({"a": 1})"), Parse("{}"), Parse("[]"),
                           ObjectLabels::kValues)
                .invented_optional,
            1);
}

TEST(ArgMatchTest, ClassesAreOfTheLabelledArguments) {
  const Json schema = Parse(kSchema);
  const ArgClasses city = ClassifyArguments(Parse(R"({"city": []})"), schema);
  EXPECT_FALSE(city.enumeration || city.array || city.object);
  EXPECT_TRUE(city.optional);
  EXPECT_TRUE(ClassifyArguments(Parse(R"({"unit": []})"), schema).enumeration);
  EXPECT_TRUE(ClassifyArguments(Parse(R"({"days": []})"), schema).array);
  EXPECT_TRUE(ClassifyArguments(Parse(R"({"place": []})"), schema).object);
  EXPECT_FALSE(ClassifyArguments(Parse(R"({"city": []})"), Json()).optional);

  const Json of_objects = Parse(R"({"properties": {"a": {"type": "array",
      "items": {"type": "object"}}}, "required": ["a"]})");
  const ArgClasses both = ClassifyArguments(Parse(R"({"a": []})"), of_objects);
  EXPECT_TRUE(both.array && both.object);
  EXPECT_FALSE(both.optional);
}

}  // namespace
}  // namespace nexus::eval
