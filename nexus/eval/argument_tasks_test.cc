#include "nexus/eval/argument_tasks.h"

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"

namespace nexus::eval {
namespace {

using ::testing::HasSubstr;

schema::ToolSchema Tool(const std::string& server, const std::string& name,
                        const std::string& properties) {
  schema::ToolSchema tool;
  tool.server = server;
  tool.name = name;
  tool.parameters =
      Json::parse(R"({"type": "object", "properties": )" + properties + "}");
  return tool;
}

const std::vector<schema::ToolSchema>& Tools() {
  static const auto* const kTools = new std::vector<schema::ToolSchema>{
      Tool("s", "x", R"({"a": {"type": "string"}})"),
      Tool("s", "x", R"({"a": {"type": "string"}, "b": {"enum": [1, 2]}})"),
      Tool("t", "y", R"({"o": {"type": "object"}})")};
  return *kTools;
}

LabelledQuery Query(const std::string& tool, const Json& arguments,
                    int schema = -1) {
  LabelledQuery query;
  query.id = tool;
  query.calls.push_back(
      {.tool = tool, .arguments = arguments, .schema = schema});
  return query;
}

TEST(ArgumentTasksTest, FindsTheSchemaThatWasLabelled) {
  ASSERT_OK_AND_ASSIGN(
      const ArgumentTasks found,
      ResolveArgumentTasks(
          Tools(), {Query("x", {{"a", {"v"}}}), Query("s/x", {{"b", {1}}}),
                    Query("x", {{"a", {"v"}}}, 1),
                    Query("t/y", Json::parse(R"({"o": [{}]})"))}));
  ASSERT_EQ(found.tasks.size(), 4U);
  EXPECT_EQ(found.tasks[0].tool, 0);
  EXPECT_EQ(found.tasks[1].tool, 1);
  EXPECT_EQ(found.tasks[2].tool, 1);
  EXPECT_EQ(found.tasks[3].tool, 2);
  EXPECT_TRUE(found.tasks[1].classes.enumeration);
  EXPECT_TRUE(found.tasks[3].classes.object);
}

TEST(ArgumentTasksTest, CountsWhatCantBeUsedByReason) {
  LabelledQuery several = Query("x", Json::object());
  several.calls.push_back(several.calls.front());
  ASSERT_OK_AND_ASSIGN(
      const ArgumentTasks found,
      ResolveArgumentTasks(
          Tools(),
          {Query("x", Json::object()), LabelledQuery(), several,
           Query("nowhere", Json::object()), Query("t/x", Json::object()),
           Query("x", {{"c", {1}}}), Query("x", {{"b", {1}}}, 0),
           Query("x", Json::object(), 2), Query("x", {{"a", Json::array()}})}));
  EXPECT_EQ(found.tasks.size(), 1U);
  EXPECT_EQ(found.without_calls, 1);
  EXPECT_EQ(found.several_calls, 1);
  EXPECT_EQ(found.unknown_tools, 2);
  EXPECT_EQ(found.foreign_arguments, 3);
  EXPECT_EQ(found.nothing_accepted, 1);
  EXPECT_EQ(found.notes.size(), 5U);
}

TEST(ArgumentTasksTest, NothingUsableSaysWhatWasWrong) {
  const auto without =
      ResolveArgumentTasks(Tools(), {LabelledQuery(), LabelledQuery()});
  ASSERT_EQ(without.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(without.status().message(), HasSubstr("2 have no \"calls\""));

  const auto unknown =
      ResolveArgumentTasks(Tools(), {Query("nowhere", Json::object())});
  EXPECT_THAT(unknown.status().message(), HasSubstr("no tool 'nowhere'"));

  EXPECT_THAT(ResolveArgumentTasks(Tools(), {}).status().message(),
              HasSubstr("no queries are left"));
  EXPECT_THAT(ResolveArgumentTasks({}, {}).status().message(),
              HasSubstr("no tools"));
}

TEST(ArgumentTasksTest, ALargerDrawHoldsTheSmallerOne) {
  std::vector<ArgumentTask> all(50);
  for (size_t i = 0; i < all.size(); ++i) all[i].tool = static_cast<int>(i);
  const auto drawn = [&](size_t limit) {
    std::vector<ArgumentTask> tasks = all;
    DrawTasks(limit, 3, &tasks);
    std::vector<int> tools;
    for (const ArgumentTask& task : tasks) tools.push_back(task.tool);
    return tools;
  };
  EXPECT_EQ(drawn(0).size(), 50U);
  EXPECT_EQ(drawn(80).size(), 50U);
  EXPECT_EQ(drawn(10).size(), 10U);
  EXPECT_THAT(drawn(25), ::testing::IsSupersetOf(drawn(10)));
}

}  // namespace
}  // namespace nexus::eval
