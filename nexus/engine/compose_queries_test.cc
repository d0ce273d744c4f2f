#include "nexus/engine/compose_queries.h"

#include <fstream>
#include <set>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"

namespace nexus::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

schema::ToolSchema Tool(const std::string& name) {
  schema::ToolSchema tool;
  tool.name = name;
  return tool;
}

ComposeQuery Query(const std::string& gold) {
  ComposeQuery query;
  query.query = "?";
  query.gold = {gold};
  return query;
}

class ReadComposeQueriesTest : public ::testing::Test {
 protected:
  Result<std::vector<ComposeQuery>> Read(const std::string& text) {
    const std::string path = dir_.File("q.jsonl");
    std::ofstream(path) << text;
    return ReadComposeQueries(path);
  }
  ScopedTempDir dir_;
};

TEST_F(ReadComposeQueriesTest, ReadsQueriesWithAndWithoutArguments) {
  ASSERT_OK_AND_ASSIGN(
      const auto queries,
      Read("{\"query\":\"a\",\"gold\":[\"x\",\"y\"]}\n\n"
           "{\"query\":\"b\",\"gold\":[\"z\"],\"args\":{\"n\":[1,null]}}"));
  ASSERT_THAT(queries, SizeIs(2));
  EXPECT_THAT(queries[0].gold, ::testing::ElementsAre("x", "y"));
  EXPECT_TRUE(queries[0].accepted_args.is_null());
  EXPECT_TRUE(queries[1].accepted_args.contains("n"));
}

TEST_F(ReadComposeQueriesTest, NamesTheLineAndTheFieldOfWhatIsWrong) {
  for (const auto& [line, field] :
       {std::pair("[]", "object"), std::pair("{\"gold\":[\"x\"]}", "'query'"),
        std::pair("{\"query\":\"a\",\"gold\":[]}", "'gold'"),
        std::pair("{\"query\":\"a\",\"gold\":[3]}", "'gold'"),
        std::pair("{\"query\":\"a\",\"gold\":[\"x\"],\"args\":{\"n\":1}}",
                  "'args'"),
        std::pair("{", "line 2")}) {
    const Status status =
        Read(std::string("{\"query\":\"a\",\"gold\":[\"x\"]}\n") + line)
            .status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << line;
    EXPECT_THAT(status.message(), HasSubstr("line 2"));
    EXPECT_THAT(status.message(), HasSubstr(field));
  }
  EXPECT_FALSE(ReadComposeQueries(dir_.File("none")).ok());
}

TEST(ArgumentsAcceptedTest, ComparesByValueAndLetsNullBeLeftOut) {
  const Json accepted = {{"city", {"New York", "NYC"}},
                         {"days", {3}},
                         {"unit", {"celsius", nullptr}}};
  const auto is_accepted = [&](const char* text) {
    return ArgumentsAccepted(*ParseJson(text, "test"), accepted);
  };
  EXPECT_TRUE(is_accepted(R"({"city": "new york", "days": 3.0})"));
  EXPECT_TRUE(is_accepted(R"({"city": "NYC", "days": 3, "unit": "Celsius"})"));
  EXPECT_FALSE(is_accepted(R"({"city": "Boston", "days": 3})"));
  EXPECT_FALSE(is_accepted(R"({"city": "NYC"})"));
  EXPECT_FALSE(is_accepted(R"({"city": "NYC", "days": "3"})"));
  EXPECT_FALSE(is_accepted(R"({"city": "NYC", "days": 3, "other": 1})"));
  EXPECT_FALSE(is_accepted("[]"));
}

TEST(MakeComposeListsTest, AsksEveryQuestionOnceOnAListThatAnswersIt) {
  std::vector<schema::ToolSchema> tools;
  std::vector<ComposeQuery> queries;
  for (int i = 0; i < 12; ++i) tools.push_back(Tool("t" + std::to_string(i)));
  for (int i = 0; i < 30; ++i) {
    queries.push_back(Query("t" + std::to_string(i * 5 % 11)));
  }
  queries.push_back(Query("unknown"));
  ASSERT_OK_AND_ASSIGN(
      const auto lists,
      MakeComposeLists(tools, queries, {.blocks = 4, .queries = 1000}));
  std::set<size_t> asked;
  for (const ComposeList& list : lists) {
    EXPECT_THAT(std::set<size_t>(list.tools.begin(), list.tools.end()),
                SizeIs(4));
    for (const size_t query : list.queries) {
      EXPECT_TRUE(asked.insert(query).second);
      EXPECT_TRUE(
          std::any_of(list.tools.begin(), list.tools.end(), [&](size_t tool) {
            return tools[tool].name == queries[query].gold[0];
          }));
    }
  }
  EXPECT_THAT(asked, SizeIs(30));
  ASSERT_OK_AND_ASSIGN(
      const auto few,
      MakeComposeLists(tools, queries, {.blocks = 4, .queries = 3}));
  ASSERT_THAT(few, SizeIs(1));
  EXPECT_THAT(few[0].queries, SizeIs(3));
  // Asking more goes on where asking fewer has ended.
  EXPECT_EQ(few[0].tools, lists[0].tools);
  EXPECT_EQ(few[0].queries, std::vector<size_t>(lists[0].queries.begin(),
                                                lists[0].queries.begin() + 3));
}

TEST(MakeComposeListsTest, TheFirstListsAreASampleOfASortedFile) {
  std::vector<schema::ToolSchema> tools;
  std::vector<ComposeQuery> queries;
  for (int i = 0; i < 200; ++i) {
    tools.push_back(Tool("t" + std::to_string(1000 + i)));
    queries.push_back(Query(tools.back().name));
  }
  ASSERT_OK_AND_ASSIGN(
      const auto lists,
      MakeComposeLists(tools, queries, {.blocks = 5, .queries = 50}));
  double sum = 0;
  for (const ComposeList& list : lists) {
    for (const size_t query : list.queries) sum += static_cast<double>(query);
  }
  // The mean of the first fifty would be 24.5, that of all is 99.5.
  EXPECT_NEAR(sum / 50, 99.5, 35);
}

TEST(MakeComposeListsTest, PartsAskEverythingOnceBetweenThem) {
  std::vector<schema::ToolSchema> tools;
  std::vector<ComposeQuery> queries;
  for (int i = 0; i < 35; ++i) {
    tools.push_back(Tool("t" + std::to_string(i)));
    queries.push_back(Query(tools.back().name));
  }
  std::set<size_t> asked;
  for (int part = 1; part <= 3; ++part) {
    ASSERT_OK_AND_ASSIGN(
        const auto lists,
        MakeComposeLists(
            tools, queries,
            {.blocks = 5, .queries = 1000, .part = part, .parts = 3}));
    EXPECT_FALSE(lists.empty());
    for (const ComposeList& list : lists) {
      for (const size_t query : list.queries) {
        EXPECT_TRUE(asked.insert(query).second);
      }
    }
  }
  EXPECT_THAT(asked, SizeIs(35));
  EXPECT_FALSE(MakeComposeLists(tools, queries, {.part = 4, .parts = 3}).ok());
  EXPECT_FALSE(MakeComposeLists(tools, queries, {.part = 0, .parts = 3}).ok());
}

TEST(MakeComposeListsTest, RefusesWhatCanNotBeAsked) {
  const std::vector<schema::ToolSchema> tools = {Tool("a"), Tool("a"),
                                                 Tool("b")};
  const std::vector<ComposeQuery> queries = {Query("a")};
  const auto code = [&](int blocks, std::span<const ComposeQuery> asked) {
    return MakeComposeLists(tools, asked, {.blocks = blocks, .queries = 1})
        .status()
        .code();
  };
  EXPECT_EQ(code(2, queries), StatusCode::kOk);
  // Two of one name can't be told apart in a call.
  EXPECT_EQ(code(3, queries), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(0, queries), StatusCode::kInvalidArgument);
  const std::vector<ComposeQuery> others = {Query("c")};
  EXPECT_EQ(code(2, others), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace nexus::engine
