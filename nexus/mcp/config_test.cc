#include "nexus/mcp/config.h"

#include <fstream>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"

namespace nexus::mcp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

std::optional<std::string> TestEnv(const std::string& name) {
  if (name == "TOKEN") return "s3cret";
  if (name == "EMPTY") return "";
  return std::nullopt;
}

Result<std::vector<McpServerConfig>> Parse(const std::string& text) {
  NEXUS_ASSIGN_OR_RETURN(const Json root, ParseJson(text, "f.json"));
  return ParseMcpConfig(root, "f.json", TestEnv);
}

Result<McpServerConfig> ParseOne(const std::string& entry) {
  NEXUS_ASSIGN_OR_RETURN(auto configs,
                         Parse(R"({"mcpServers":{"s":)" + entry + "}}"));
  return configs.at(0);
}

TEST(McpConfigTest, ReadsAStdioServer) {
  ASSERT_OK_AND_ASSIGN(
      const auto config,
      ParseOne(R"({"type":"stdio","command":"npx","args":["-y","x"],
                   "env":{"K":"v"},"cwd":"/tmp","callTimeoutMs":5,
                   "connectTimeoutMs":6,"alwaysAllow":["ignored"]})"));
  EXPECT_EQ(config.name, "s");
  EXPECT_EQ(config.command, "npx");
  EXPECT_THAT(config.args, ElementsAre("-y", "x"));
  EXPECT_THAT(config.env, ElementsAre(Pair("K", "v")));
  EXPECT_EQ(config.cwd, "/tmp");
  EXPECT_EQ(config.call_timeout_ms, 5);
  EXPECT_EQ(config.connect_timeout_ms, 6);
  EXPECT_FALSE(config.disabled);
}

TEST(McpConfigTest, ReadsAnHttpServerOfEveryDialect) {
  for (const char* entry :
       {R"({"url":"http://h/mcp"})", R"({"type":"http","url":"http://h/mcp"})",
        R"({"type":"sse","url":"http://h/mcp"})",
        R"({"type":"streamableHttp","url":"http://h/mcp"})",
        R"({"transport":"streamable-http","serverUrl":"http://h/mcp"})"}) {
    ASSERT_OK_AND_ASSIGN(const auto config, ParseOne(entry));
    EXPECT_EQ(config.url, "http://h/mcp") << entry;
  }
}

TEST(McpConfigTest, ReadsEditorsFilesInOrder) {
  ASSERT_OK_AND_ASSIGN(
      auto configs,
      Parse(R"({"servers":{"z":{"command":"a"},"a":{"command":"b"}}})"));
  ASSERT_EQ(configs.size(), 2u);
  EXPECT_EQ(configs[0].name, "z");
  EXPECT_EQ(configs[1].name, "a");
  ASSERT_OK_AND_ASSIGN(configs,
                       Parse(R"({"mcp":{"servers":{"x":{"command":"a"}}}})"));
  EXPECT_EQ(configs[0].name, "x");
  ASSERT_OK_AND_ASSIGN(configs, Parse(R"({"mcpServers":{}})"));
  EXPECT_TRUE(configs.empty());
}

TEST(McpConfigTest, ExpandsVariables) {
  ASSERT_OK_AND_ASSIGN(
      const auto config,
      ParseOne(R"({"url":"http://h/${TOKEN}/${EMPTY}x","headers":{
        "Authorization":"Bearer ${env:TOKEN}","A":"${NONE:-d:-e}$1 $","B":
        "${TOKEN:-unused}"}})"));
  EXPECT_EQ(config.url, "http://h/s3cret/x");
  EXPECT_THAT(
      config.headers,
      ElementsAre(Pair("A", "d:-e$1 $"), Pair("Authorization", "Bearer s3cret"),
                  Pair("B", "s3cret")));
}

TEST(McpConfigTest, NamesAnUnsetVariable) {
  const auto config = ParseOne(R"({"command":"a","args":["x","${API_KEY}"]})");
  EXPECT_EQ(config.status().code(), StatusCode::kInvalidArgument);
  for (const char* part : {"f.json", "\"s\"", "args[1]", "API_KEY"}) {
    EXPECT_THAT(config.status().message(), HasSubstr(part));
  }
}

TEST(McpConfigTest, DoesNotNeedTheVariablesOfADisabledServer) {
  ASSERT_OK_AND_ASSIGN(
      const auto config,
      ParseOne(R"({"command":"a","args":["${API_KEY}"],"disabled":true})"));
  EXPECT_TRUE(config.disabled);
}

TEST(McpConfigTest, RefusesWrongEntries) {
  for (const char* entry :
       {"7", "{}", R"({"command":7})", R"({"command":"a","url":"http://h"})",
        R"({"type":"ftp","command":"a"})", R"({"type":"http","command":"a"})",
        R"({"type":"stdio","url":"http://h"})", R"({"command":"a","args":"x"})",
        R"({"command":"a","args":[1]})", R"({"command":"a","env":["x"]})",
        R"({"command":"a","env":{"K":1}})",
        R"({"command":"a","disabled":"no"})",
        R"({"command":"a","callTimeoutMs":0})",
        R"({"command":"a","callTimeoutMs":1e9})", R"({"command":"${TOKEN"})",
        R"({"command":"${}"})", R"({"command":"${A B}"})"}) {
    const auto config = ParseOne(entry);
    EXPECT_EQ(config.status().code(), StatusCode::kInvalidArgument) << entry;
    EXPECT_THAT(config.status().message(), HasSubstr("f.json")) << entry;
  }
  for (const char* text : {"[]", "{}", R"({"mcpServers":[]})",
                           R"({"mcpServers":{"":{"command":"a"}}})"}) {
    EXPECT_EQ(Parse(text).status().code(), StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(McpConfigTest, ReadsAFileAndItsRelativeFolders) {
  const ScopedTempDir folder;
  std::ofstream(folder.File("m.json"))
      << R"({"mcpServers":{"s":{"command":"a","cwd":"sub"}}})";
  ASSERT_OK_AND_ASSIGN(const auto configs,
                       ReadMcpConfigFile(folder.File("m.json")));
  EXPECT_EQ(configs[0].cwd, folder.File("sub"));
}

TEST(McpConfigTest, NamesTheFileThatIsMissingOrNoJson) {
  const ScopedTempDir folder;
  const auto missing = ReadMcpConfigFile(folder.File("none.json"));
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.status().message(), HasSubstr("none.json"));
  std::ofstream(folder.File("bad.json")) << "{\"mcpServers\": {,}";
  const auto bad = ReadMcpConfigFile(folder.File("bad.json"));
  EXPECT_FALSE(bad.ok());
  EXPECT_THAT(bad.status().message(), HasSubstr("bad.json"));
}

}  // namespace
}  // namespace nexus::mcp
