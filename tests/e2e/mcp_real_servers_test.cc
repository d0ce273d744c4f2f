// The MCP client against the reference servers from npm: three over stdio, and
// server-everything over streamable HTTP as well.
//
// scripts/fetch_mcp_servers installs them; without them the tests fail.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "gmock/gmock.h"

#include "nexus/base/file_system.h"
#include "nexus/base/test_util.h"
#include "nexus/mcp/catalog.h"
#include "nexus/mcp/subprocess.h"

namespace nexus::mcp {
namespace {

using testing::HasSubstr;

std::string Root() { return UserCacheDir() + "/mcp-servers"; }

std::string Script(const std::string& package) {
  return Root() + "/node_modules/@modelcontextprotocol/" + package +
         "/dist/index.js";
}

class McpRealServersTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(FileSystem::Default().Exists(Script("server-memory")))
        << "the MCP servers aren't installed in " << Root()
        << "; run scripts/fetch_mcp_servers";
    std::ofstream(folder_.File("hello.txt")) << "line one\nline two\n";
    std::filesystem::create_directory(folder_.File("sub"));
  }

  // The three servers, with files of this test's own.
  Result<std::unique_ptr<McpCatalog>> OpenAll() {
    McpServerConfig everything{.name = "everything",
                               .command = "node",
                               .args = {Script("server-everything"), "stdio"}};
    McpServerConfig filesystem{
        .name = "filesystem",
        .command = "node",
        .args = {Script("server-filesystem"), folder_.path()}};
    McpServerConfig memory{
        .name = "memory",
        .command = "node",
        .args = {Script("server-memory")},
        .env = {{"MEMORY_FILE_PATH", folder_.File("memory.jsonl")}}};
    std::vector<McpServerConfig> all = {everything, filesystem, memory};
    for (McpServerConfig& config : all) config.connect_timeout_ms = 60000;
    return McpCatalog::Open(std::move(all));
  }

  static std::string Call(McpCatalog& catalog, const std::string& server,
                          const std::string& tool, const Json& arguments) {
    for (const schema::ToolSchema& candidate : catalog.tools()) {
      if (candidate.server != server || candidate.name != tool) continue;
      const auto result = catalog.Call(candidate, arguments);
      if (!result.ok()) return result.status().ToString();
      return (result->is_error ? "error: " : "") + result->text;
    }
    return "no tool " + server + "/" + tool;
  }

  const ScopedTempDir folder_;
};

TEST_F(McpRealServersTest, ListsAndCallsTheToolsOfThreeServers) {
  ASSERT_OK_AND_ASSIGN(auto catalog, OpenAll());
  for (const ServerReport& report : catalog->reports()) {
    EXPECT_OK(report.status);
    EXPECT_EQ(report.info.protocol_version, "2025-11-25") << report.name;
    EXPECT_TRUE(report.warnings.empty()) << report.warnings[0];
    std::cout << report.name << ": " << report.tool_count << " tools in "
              << report.connect_ms << " ms\n";
  }
  EXPECT_EQ(catalog->tools().size(), 36u);
  std::set<std::string> ids;
  for (const schema::ToolSchema& tool : catalog->tools()) {
    EXPECT_TRUE(ids.insert(schema::ToolId(tool)).second) << tool.name;
    EXPECT_FALSE(tool.description.empty()) << tool.name;
    EXPECT_EQ(tool.parameters["type"], "object") << tool.name;
  }

  EXPECT_EQ(Call(*catalog, "everything", "echo", {{"message", "hi"}}),
            "Echo: hi");
  EXPECT_THAT(Call(*catalog, "everything", "get-sum", {{"a", 2}, {"b", 40}}),
              HasSubstr("42"));
  EXPECT_THAT(Call(*catalog, "filesystem", "read_text_file",
                   {{"path", folder_.File("hello.txt")}, {"head", 1}}),
              HasSubstr("line one"));
  const std::string listing = Call(*catalog, "filesystem", "list_directory",
                                   {{"path", folder_.path()}});
  EXPECT_THAT(listing, HasSubstr("[FILE] hello.txt"));
  EXPECT_THAT(listing, HasSubstr("[DIR] sub"));
  EXPECT_THAT(
      Call(*catalog, "filesystem", "read_text_file", {{"path", "/etc/passwd"}}),
      HasSubstr("error: "));
  const Json entity = {{"name", "Nexus"},
                       {"entityType", "program"},
                       {"observations", {"splices KV blocks"}}};
  EXPECT_THAT(Call(*catalog, "memory", "create_entities",
                   {{"entities", Json::array({entity})}}),
              HasSubstr("Nexus"));
  EXPECT_THAT(Call(*catalog, "memory", "read_graph", Json::object()),
              HasSubstr("splices KV blocks"));
}

TEST_F(McpRealServersTest, RefusesWrongArgumentsAndGoesOn) {
  ASSERT_OK_AND_ASSIGN(auto catalog, OpenAll());
  const std::string wrong =
      Call(*catalog, "everything", "get-sum", {{"a", "two"}});
  EXPECT_THAT(wrong, HasSubstr("Invalid"));
  EXPECT_EQ(Call(*catalog, "everything", "echo", {{"message", "still"}}),
            "Echo: still");
}

TEST_F(McpRealServersTest, ReportsProgressAndCancelsALongTool) {
  ASSERT_OK_AND_ASSIGN(auto catalog, OpenAll());
  const schema::ToolSchema tool{.server = "everything",
                                .name = "trigger-long-running-operation"};
  int steps = 0;
  ASSERT_OK(catalog->Call(
      tool, {{"duration", 1}, {"steps", 2}},
      {.on_progress = [&](double, double total, const std::string&) {
        EXPECT_EQ(total, 2);
        ++steps;
      }}));
  EXPECT_EQ(steps, 2);
  EXPECT_EQ(
      catalog->Call(tool, {{"duration", 60}, {"steps", 2}}, {.timeout_ms = 200})
          .status()
          .code(),
      StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Call(*catalog, "everything", "echo", {{"message", "on"}}),
            "Echo: on");
}

// A port that was free a moment ago.
int FreePort() {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  NEXUS_CHECK(::bind(fd.get(), generic, size) == 0);
  NEXUS_CHECK(::getsockname(fd.get(), generic, &size) == 0);
  return ntohs(address.sin_port);
}

TEST_F(McpRealServersTest, SpeaksStreamableHttp) {
  const int port = FreePort();
  ASSERT_OK_AND_ASSIGN(
      Subprocess process,
      Subprocess::Spawn(
          {.command = "node",
           .args = {Script("server-everything"), "streamableHttp"},
           .env = {{"PORT", std::to_string(port)}}}));
  const McpServerConfig config{
      .name = "everything",
      .url = "http://127.0.0.1:" + std::to_string(port) + "/mcp",
      .connect_timeout_ms = 60000};
  std::unique_ptr<McpCatalog> catalog;
  for (int attempt = 0; attempt < 300; ++attempt) {
    ASSERT_OK_AND_ASSIGN(catalog, McpCatalog::Open({config}));
    if (catalog->reports()[0].status.ok() || process.TryWait()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  ASSERT_OK(catalog->reports()[0].status);
  EXPECT_EQ(catalog->reports()[0].info.protocol_version, "2025-11-25");
  EXPECT_EQ(catalog->tools().size(), 13u);
  EXPECT_EQ(Call(*catalog, "everything", "echo", {{"message", "over HTTP"}}),
            "Echo: over HTTP");
  EXPECT_THAT(Call(*catalog, "everything", "get-sum", {{"a", 2}, {"b", 40}}),
              HasSubstr("42"));
  int steps = 0;
  const schema::ToolSchema tool{.server = "everything",
                                .name = "trigger-long-running-operation"};
  ASSERT_OK(catalog->Call(
      tool, {{"duration", 1}, {"steps", 2}},
      {.on_progress = [&](double, double, const std::string&) { ++steps; }}));
  EXPECT_EQ(steps, 2);
  EXPECT_EQ(
      catalog->Call(tool, {{"duration", 60}, {"steps", 2}}, {.timeout_ms = 300})
          .status()
          .code(),
      StatusCode::kDeadlineExceeded);
  EXPECT_EQ(Call(*catalog, "everything", "echo", {{"message", "on"}}),
            "Echo: on");
  catalog.reset();
  process.Stop({.grace_ms = 0});
}

}  // namespace
}  // namespace nexus::mcp
