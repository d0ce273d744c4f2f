#include "nexus/mcp/catalog.h"

#include <signal.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <thread>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"

namespace nexus::mcp {
namespace {

using testing::HasSubstr;

McpServerConfig Fake(const std::string& name, const std::string& mode) {
  return {.name = name,
          .command = NEXUS_FAKE_MCP_SERVER,
          .args = {mode},
          .connect_timeout_ms = 20000};
}

schema::ToolSchema ToolOf(const std::string& server, const std::string& name) {
  return {.server = server, .name = name};
}

TEST(McpCatalogTest, GathersToolsAndHidesNoneForAFailingServer) {
  McpServerConfig hung = Fake("hung", "silent");
  hung.connect_timeout_ms = 300;
  McpServerConfig off = Fake("off", "normal");
  off.disabled = true;
  ASSERT_OK_AND_ASSIGN(
      auto catalog,
      McpCatalog::Open({Fake("dead", "exit"),
                        Fake("paged", "pages"),
                        hung,
                        off,
                        Fake("noisy", "noise"),
                        {.name = "gone", .command = "no-such-command"}}));
  const auto& reports = catalog->reports();
  ASSERT_EQ(reports.size(), 6u);
  EXPECT_EQ(reports[0].status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(reports[0].status.message(), HasSubstr("no such file"));
  EXPECT_OK(reports[1].status);
  EXPECT_EQ(reports[1].tool_count, 15u);
  EXPECT_GT(reports[1].connect_ms, 0);
  EXPECT_EQ(reports[1].info.name, "fake");
  EXPECT_EQ(reports[2].status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(reports[3].status.code(), StatusCode::kCancelled);
  EXPECT_OK(reports[4].status);
  EXPECT_EQ(reports[4].warnings.size(), 1u);
  EXPECT_EQ(reports[5].status.code(), StatusCode::kNotFound);

  ASSERT_EQ(catalog->tools().size(), 15u + reports[4].tool_count);
  EXPECT_EQ(catalog->tools().front().server, "paged");
  EXPECT_EQ(catalog->tools().back().server, "noisy");
}

TEST(McpCatalogTest, CallsTheServerThatTheToolCameFrom) {
  ASSERT_OK_AND_ASSIGN(
      auto catalog, McpCatalog::Open({Fake("a", "normal"), Fake("b", "normal"),
                                      Fake("dead", "exit")}));
  ASSERT_OK_AND_ASSIGN(
      const CallResult result,
      catalog->Call(ToolOf("b", "echo"), {{"text", "from b"}}));
  EXPECT_EQ(result.text, "from b");
  EXPECT_EQ(catalog->Call(ToolOf("c", "echo"), nullptr).status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(catalog->Call(ToolOf("dead", "echo"), nullptr).status().code(),
            StatusCode::kUnavailable);
}

TEST(McpCatalogTest, ConnectsAServerThatDiedAnewForTheNextCall) {
  ASSERT_OK_AND_ASSIGN(auto catalog, McpCatalog::Open({Fake("a", "normal")}));
  const auto died = catalog->Call(ToolOf("a", "die"), nullptr);
  EXPECT_EQ(died.status().code(), StatusCode::kUnavailable);
  ASSERT_OK_AND_ASSIGN(const CallResult result,
                       catalog->Call(ToolOf("a", "echo"), {{"text", "back"}}));
  EXPECT_EQ(result.text, "back");
}

TEST(McpCatalogTest, RefreshesWhatChanged) {
  ASSERT_OK_AND_ASSIGN(auto catalog, McpCatalog::Open({Fake("a", "normal")}));
  EXPECT_FALSE(catalog->tools_changed());
  const size_t before = catalog->tools().size();
  ASSERT_OK(catalog->Call(ToolOf("a", "change_tools"), nullptr));
  EXPECT_TRUE(catalog->tools_changed());
  catalog->Refresh();
  EXPECT_FALSE(catalog->tools_changed());
  EXPECT_EQ(catalog->tools().size(), before);
  EXPECT_OK(catalog->reports()[0].status);
}

// A shell that writes its process id down and becomes the fake server.
McpServerConfig FakeWithPidFile(const std::string& mode,
                                const std::string& pid_file) {
  return {.name = mode,
          .command = "sh",
          .args = {"-c", "echo $$ >\"$1\" && exec \"$0\" \"$2\"",
                   NEXUS_FAKE_MCP_SERVER, pid_file, mode},
          .connect_timeout_ms = 20000};
}

// Shakes hands, and never answers tools/list.
McpServerConfig ListlessWithPidFile(const std::string& pid_file) {
  constexpr char kScript[] =
      R"sh(echo $$ >"$0"; read request; echo '{"jsonrpc":"2.0","id":1,"result":{
"protocolVersion":"2025-11-25","capabilities":{"tools":{}},
"serverInfo":{}}}' | tr -d '\n'; echo; exec cat >/dev/null)sh";
  return {.name = "listless",
          .command = "sh",
          .args = {"-c", kScript, pid_file},
          .connect_timeout_ms = 20000};
}

pid_t PidIn(const std::string& path) {
  pid_t pid = 0;
  std::ifstream(path) >> pid;
  return pid;
}

TEST(McpCatalogTest, CancelEndsConnectingAndAllChildren) {
  const ScopedTempDir dir;
  std::vector<McpServerConfig> servers = {
      ListlessWithPidFile(dir.File("listless"))};
  for (const char* mode : {"silent", "deaf", "stubborn", "normal"}) {
    servers.push_back(FakeWithPidFile(mode, dir.File(mode)));
  }
  std::atomic<bool> cancel{false};
  std::chrono::steady_clock::time_point cancelled_at;
  std::thread user([&] {
    // Once all of them run; the hanging ones would hang for 20 s.
    for (const McpServerConfig& server : servers) {
      while (PidIn(dir.File(server.name)) == 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    cancelled_at = std::chrono::steady_clock::now();
    cancel = true;
  });
  const auto opened = McpCatalog::Open(servers, {.cancel = &cancel});
  user.join();
  EXPECT_LT(std::chrono::steady_clock::now() - cancelled_at,
            std::chrono::milliseconds(1500));
  ASSERT_OK(opened);
  const McpCatalog& catalog = **opened;
  ASSERT_EQ(catalog.reports().size(), servers.size());
  for (const ServerReport& report : catalog.reports()) {
    EXPECT_EQ(report.status.code(), StatusCode::kCancelled);
    EXPECT_EQ(report.status.message(),
              "MCP server '" + report.name + "': interrupted");
    EXPECT_TRUE(::kill(PidIn(dir.File(report.name)), 0) != 0 && errno == ESRCH)
        << report.name;
  }
  EXPECT_TRUE(catalog.tools().empty());
}

TEST(McpCatalogTest, ACancelSetBeforehandStartsNothing) {
  const ScopedTempDir dir;
  const std::atomic<bool> cancel{true};
  ASSERT_OK_AND_ASSIGN(
      const auto catalog,
      McpCatalog::Open({FakeWithPidFile("normal", dir.File("pid"))},
                       {.cancel = &cancel}));
  EXPECT_EQ(catalog->reports()[0].status.code(), StatusCode::kCancelled);
  EXPECT_EQ(PidIn(dir.File("pid")), 0);
}

TEST(McpCatalogTest, RefusesAnEmptyListAndTwoServersOfOneName) {
  EXPECT_EQ(McpCatalog::Open({}).status().code(), StatusCode::kInvalidArgument);
  const auto twice =
      McpCatalog::Open({Fake("a", "normal"), Fake("a", "normal")});
  EXPECT_EQ(twice.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(twice.status().message(), HasSubstr("'a'"));
}

}  // namespace
}  // namespace nexus::mcp
