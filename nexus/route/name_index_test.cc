#include "nexus/route/name_index.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace nexus::route {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

schema::ToolSchema Tool(std::string name, std::string server = "") {
  schema::ToolSchema tool;
  tool.name = std::move(name);
  tool.server = std::move(server);
  return tool;
}

NameIndex IndexOf(std::vector<std::string> names) {
  std::vector<schema::ToolSchema> tools;
  for (std::string& name : names) tools.push_back(Tool(std::move(name)));
  return NameIndex(tools);
}

// Tools of the marked names, then "?tool" for plain words.
std::vector<std::string> Found(const NameIndex& index, std::string_view query) {
  std::vector<std::string> out;
  for (const NameMention& mention : index.Find(query)) {
    std::string text = mention.plain_word ? "?" : "";
    for (const int tool : mention.tools) {
      text += (text.empty() || text == "?" ? "" : ",") + std::to_string(tool);
    }
    out.push_back(text);
  }
  return out;
}

TEST(NameIndexTest, FindsIdentifiersAsWholeWords) {
  const NameIndex index =
      IndexOf({"create_issue", "getUser", "get-weather", "math.factorial", "v2",
               "create_issue_comment"});
  EXPECT_THAT(Found(index, "please create_issue now"), ElementsAre("0"));
  EXPECT_THAT(Found(index, "(getUser), get-weather; math.factorial."),
              ElementsAre("1", "2", "3"));
  EXPECT_THAT(Found(index, "create_issue_comment"), ElementsAre("5"));
  EXPECT_THAT(Found(index, "recreate_issue and create_issues"), IsEmpty());
  EXPECT_THAT(Found(index, "create issue"), IsEmpty());
}

TEST(NameIndexTest, FindsANameBeforeAKoreanParticle) {
  const NameIndex index = IndexOf({"create_issue", "날씨예보조회"});
  EXPECT_THAT(Found(index, "create_issue를 호출해 줘"), ElementsAre("0"));
  EXPECT_THAT(Found(index, "날씨예보조회로 알려 줘"), ElementsAre("1"));
  EXPECT_THAT(Found(index, "날씨 알려 줘"), IsEmpty());
}

TEST(NameIndexTest, TakesOtherCaseButPrefersItsOwn) {
  const NameIndex index = IndexOf({"getURL", "getUrl"});
  EXPECT_THAT(Found(index, "call getUrl"), ElementsAre("1"));
  EXPECT_THAT(Found(index, "call GETURL"), ElementsAre("0,1"));
}

TEST(NameIndexTest, KeepsTheOrderOfAppearanceAndNamesOnce) {
  const NameIndex index = IndexOf({"read_file", "write_file"});
  EXPECT_THAT(Found(index, "write_file, then read_file, then write_file"),
              ElementsAre("1", "0"));
}

TEST(NameIndexTest, TakesAPlainWordForANameOnlyWhenMarked) {
  const NameIndex index = IndexOf({"search", "load"});
  EXPECT_THAT(Found(index, "search for a loaded file, then load it"),
              ElementsAre("?0", "?1"));
  EXPECT_THAT(Found(index, "use `search`"), ElementsAre("0"));
  EXPECT_THAT(Found(index, "use the search tool"), ElementsAre("0"));
  EXPECT_THAT(Found(index, "with the tool search"), ElementsAre("0"));
  EXPECT_THAT(Found(index, "call the function load(1)"), ElementsAre("1"));
  EXPECT_THAT(Found(index, "  Search\n"), ElementsAre("0"));
  EXPECT_THAT(Found(index, "search: find it with the search tool"),
              ElementsAre("0"));
}

TEST(NameIndexTest, UnderstandsTheServer) {
  const std::vector<schema::ToolSchema> tools = {
      Tool("create_issue", "github"), Tool("create_issue", "gitlab"),
      Tool("search", "github"), Tool("quote", "Yahoo Finance")};
  const NameIndex index(tools);
  EXPECT_THAT(Found(index, "create_issue"), ElementsAre("0,1"));
  EXPECT_THAT(Found(index, "gitlab/create_issue"), ElementsAre("1"));
  EXPECT_THAT(Found(index, "github/search"), ElementsAre("2"));
  EXPECT_THAT(Found(index, "github__search"), ElementsAre("2"));
  EXPECT_THAT(Found(index, "mcp__gitlab__create_issue"), ElementsAre("1"));
  EXPECT_THAT(Found(index, "ask Yahoo Finance/quote for it"), ElementsAre("3"));
}

TEST(NameIndexTest, FindsNamesOfSeveralWords) {
  const NameIndex index = IndexOf({"Get Weather", "Get Weather Forecast"});
  EXPECT_THAT(Found(index, "get weather forecast of Rome"), ElementsAre("1"));
  EXPECT_THAT(Found(index, "Get Weather of Rome"), ElementsAre("0"));
  EXPECT_THAT(Found(index, "forget weather"), IsEmpty());
}

TEST(NameIndexTest, FindsUnicodeNames) {
  const NameIndex index =
      IndexOf({"创建新文件", "搜索", "créer_fichier", "读取_file", "Élan"});
  EXPECT_THAT(Found(index, "请用创建新文件来做"), ElementsAre("0"));
  EXPECT_THAT(Found(index, "搜索一下"), ElementsAre("?1"));
  EXPECT_THAT(Found(index, "`搜索`"), ElementsAre("1"));
  EXPECT_THAT(Found(index, "CRÉER_FICHIER!"), ElementsAre("2"));
  EXPECT_THAT(Found(index, "recréer_fichier"), IsEmpty());
  EXPECT_THAT(Found(index, "用读取_file吧"), ElementsAre("3"));
  EXPECT_THAT(Found(index, "élan vital"), ElementsAre("?4"));
}

TEST(NameIndexTest, LeavesPathsAndAddressesAlone) {
  const NameIndex index = IndexOf({"get_page", "read_file"});
  EXPECT_THAT(Found(index, "open https://example.com/get_page"), IsEmpty());
  EXPECT_THAT(Found(index, "cat /tmp/read_file"), IsEmpty());
  EXPECT_THAT(Found(index, "get_page/read_file"), ElementsAre("0", "1"));
}

TEST(NameIndexTest, SurvivesStrangeInput) {
  const NameIndex index = IndexOf({"", "a", "...", "\xFF\xFE", "$ref", "x_y"});
  EXPECT_THAT(Found(index, "\xFF\xFE\xC3"), ElementsAre("3"));
  EXPECT_THAT(Found(index, "see $ref"), ElementsAre("4"));
  EXPECT_THAT(Found(index, "...//::--"), IsEmpty());
  EXPECT_THAT(Found(index, ""), IsEmpty());
  EXPECT_THAT(NameIndex({}).Find("x_y"), IsEmpty());
  const std::string long_query(100 << 10, '_');
  EXPECT_THAT(Found(index, long_query + " x_y"), ElementsAre("5"));
}

// A search to the end of the query for every word took half a minute here.
TEST(NameIndexTest, IsLinearInTheQuery) {
  const NameIndex index = IndexOf({"get_page", "search", "Get The Page"});
  std::string query(50 << 10, ' ');
  while (query.size() < 1 << 20) query += "get search word ";
  EXPECT_THAT(Found(index, query), ElementsAre("?1"));
}

}  // namespace
}  // namespace nexus::route
