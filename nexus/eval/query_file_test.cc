#include "nexus/eval/query_file.h"

#include "gmock/gmock.h"

#include "nexus/base/file_system.h"
#include "nexus/base/test_util.h"

namespace nexus::eval {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<std::vector<LabelledQuery>> Read(const std::string& text) {
  const ScopedTempDir dir;
  const std::string path = dir.File("q.jsonl");
  EXPECT_OK(WriteFileAtomically(FileSystem::Default(), path, text));
  return ReadQueryFile(path);
}

TEST(QueryFileTest, ReadsLabelsAndIgnoresTheRest) {
  ASSERT_OK_AND_ASSIGN(
      const auto queries,
      Read("{\"query\": \"a\", \"gold\": [\"s/x\", \"y\", \"s/x\"], "
           "\"gold_any\": true, \"id\": 7, \"set\": \"t\", \"split\": "
           "\"test\", \"related\": [\"z\"], \"kind\": [1]}\r\n\n"
           "{\"query\": \"b\", \"gold\": [], \"within\": \"candidates\", "
           "\"candidates\": [\"x\"]}"));
  ASSERT_EQ(queries.size(), 2U);
  EXPECT_EQ(queries[0].id, "7");
  EXPECT_EQ(queries[0].set, "t");
  EXPECT_EQ(queries[0].split, "test");
  EXPECT_THAT(queries[0].gold, ElementsAre("s/x", "y"));
  EXPECT_THAT(queries[0].related, ElementsAre("z"));
  EXPECT_TRUE(queries[0].gold_any);
  EXPECT_EQ(queries[1].id, "3");
  EXPECT_TRUE(queries[1].gold.empty());
  EXPECT_THAT(queries[1].within, ElementsAre("x"));
}

TEST(QueryFileTest, ABrokenLineIsNamed) {
  for (const char* line :
       {"{\"query\": ", "[]", "{\"query\": 1, \"gold\": []}",
        "{\"query\": \"a\"}", "{\"query\": \"a\", \"gold\": \"x\"}",
        "{\"query\": \"a\", \"gold\": null}",
        "{\"query\": \"a\", \"gold\": [], \"within\": \"candidates\"}",
        "{\"query\": \"a\", \"gold\": [], \"within\": \"candidates\", "
        "\"candidates\": []}",
        "{\"query\": \"a\", \"gold\": [1]}",
        "{\"query\": \"a\", \"gold\": [], \"gold_any\": 1}",
        "{\"query\": \"a\", \"gold\": [], \"within\": \"x\"}",
        "{\"query\": \"a\", \"gold\": [], \"set\": []}"}) {
    const auto queries =
        Read("{\"query\": \"a\", \"gold\": []}\n" + std::string(line) + "\n");
    ASSERT_FALSE(queries.ok()) << line;
    EXPECT_EQ(queries.status().code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(queries.status().message(), HasSubstr("q.jsonl:2"));
  }
  EXPECT_EQ(ReadQueryFile("/nonexistent/q.jsonl").status().code(),
            StatusCode::kNotFound);
}

TEST(QueryFileTest, ReadsLabelledCalls) {
  ASSERT_OK_AND_ASSIGN(
      const auto queries,
      Read(R"({"query": "a", "gold": ["x"], "object_labels": "values", )"
           R"("calls": [{"tool": "s/x", "arguments": {"n": [1, ""], "m": []}, )"
           R"("schema": 2}]})"
           "\n"
           R"({"query": "b", "gold": ["x"], )"
           R"("calls": [{"tool": "x", "arguments": {}}]})"));
  ASSERT_EQ(queries.size(), 2U);
  EXPECT_EQ(queries[0].object_labels, ObjectLabels::kValues);
  ASSERT_EQ(queries[0].calls.size(), 1U);
  EXPECT_EQ(queries[0].calls[0].tool, "s/x");
  EXPECT_EQ(queries[0].calls[0].schema, 2);
  EXPECT_EQ(queries[0].calls[0].arguments["n"], Json::array({1, ""}));
  EXPECT_EQ(queries[1].object_labels, ObjectLabels::kAccepted);
  EXPECT_EQ(queries[1].calls[0].schema, -1);
}

TEST(QueryFileTest, AMalformedCallIsNamed) {
  for (const char* calls :
       {"1", "{}", "[1]", "[{}]", R"([{"tool": "x"}])",
        R"([{"tool": 1, "arguments": {}}])",
        R"([{"tool": "x", "arguments": []}])",
        R"([{"tool": "x", "arguments": {"n": 1}}])",
        R"([{"tool": "x", "arguments": {}, "schema": -1}])",
        R"([{"tool": "x", "arguments": {}, "schema": "1"}])",
        R"([], "object_labels": "else")", R"([], "object_labels": 1.5)"}) {
    const auto queries = Read(R"({"query": "a", "gold": ["x"], "calls": )" +
                              std::string(calls) + "}");
    ASSERT_FALSE(queries.ok()) << calls;
    EXPECT_EQ(queries.status().code(), StatusCode::kInvalidArgument) << calls;
    EXPECT_THAT(queries.status().message(), HasSubstr("q.jsonl:1")) << calls;
  }
}

TEST(QueryFileTest, AnEmptyFileHasNoQueries) {
  ASSERT_OK_AND_ASSIGN(const auto queries, Read(""));
  EXPECT_TRUE(queries.empty());
}

TEST(QueryFileTest, FiltersAndDrawsWithoutChangingTheOrder) {
  std::vector<LabelledQuery> queries(100);
  for (size_t i = 0; i < queries.size(); ++i) {
    queries[i].id = std::to_string(1000 + i);
    queries[i].split = i % 2 == 0 ? "test" : "train";
  }
  const auto drawn = FilterQueries(queries, {.split = "test", .limit = 10});
  ASSERT_EQ(drawn.size(), 10U);
  for (size_t i = 0; i < drawn.size(); ++i) {
    EXPECT_EQ(drawn[i].split, "test");
    if (i > 0) {
      EXPECT_LT(drawn[i - 1].id, drawn[i].id);
    }
  }
  const auto again = FilterQueries(queries, {.split = "test", .limit = 10});
  const auto other =
      FilterQueries(queries, {.split = "test", .limit = 10, .seed = 2});
  EXPECT_EQ(again.front().id + again.back().id,
            drawn.front().id + drawn.back().id);
  EXPECT_NE(other.front().id + other.back().id,
            drawn.front().id + drawn.back().id);
}

}  // namespace
}  // namespace nexus::eval
