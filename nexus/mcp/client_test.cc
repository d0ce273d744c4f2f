// The client against the fake server: every way in which a server can be bad.
#include "nexus/mcp/client.h"

#include <atomic>
#include <chrono>
#include <set>
#include <thread>

#include "gmock/gmock.h"

#include "nexus/base/clock.h"
#include "nexus/base/test_util.h"

namespace nexus::mcp {
namespace {

using std::chrono::milliseconds;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

McpServerConfig Fake(const std::string& mode) {
  return {.name = "fake",
          .command = NEXUS_FAKE_MCP_SERVER,
          .args = {mode},
          .connect_timeout_ms = 20000,
          .call_timeout_ms = 20000};
}

// A fake server in `mode`, connected.
class Session {
 public:
  explicit Session(const std::string& mode = "normal",
                   const McpClientOptions& options = {}) {
    auto connected = McpClient::Connect(Fake(mode), options);
    EXPECT_OK(connected);
    if (connected.ok()) client_ = std::move(connected).value();
  }
  McpClient* operator->() const { return client_.get(); }
  explicit operator bool() const { return client_ != nullptr; }

  std::string Text(const std::string& tool, const Json& arguments = nullptr) {
    const auto result = client_->CallTool(tool, arguments);
    return result.ok() ? result->text : result.status().ToString();
  }

 private:
  std::unique_ptr<McpClient> client_;
};

Status ConnectError(const McpServerConfig& config) {
  auto client = McpClient::Connect(config);
  EXPECT_FALSE(client.ok());
  return client.status();
}

double ElapsedMs(const std::function<void()>& work) {
  const auto start = Clock::Monotonic().Now();
  work();
  return Milliseconds(Clock::Monotonic().Now() - start);
}

// ---- Start ----

TEST(McpClientTest, ShakesHandsAndTellsWhoItMet) {
  Session session;
  ASSERT_TRUE(session);
  EXPECT_EQ(session->server_info().name, "fake");
  EXPECT_EQ(session->server_info().version, "1.2");
  EXPECT_EQ(session->server_info().protocol_version, "2025-11-25");
  EXPECT_EQ(session->server_info().instructions, "Be kind.");
  EXPECT_OK(session->Ping());
}

TEST(McpClientTest, NegotiatesDownToAnOldRevision) {
  Session session("old");
  ASSERT_TRUE(session);
  EXPECT_EQ(session->server_info().protocol_version, "2024-11-05");
  EXPECT_EQ(session.Text("echo", {{"text", "hi"}}), "hi");
}

TEST(McpClientTest, SpeaksTheRevisionWithoutHandshake) {
  Session session("stateless");
  ASSERT_TRUE(session);
  EXPECT_EQ(session->server_info().protocol_version, "2026-07-28");
  EXPECT_EQ(session->server_info().name, "fake");
  EXPECT_EQ(session->server_info().version, "2");
  ASSERT_OK_AND_ASSIGN(const auto tools, session->ListTools());
  EXPECT_FALSE(tools.empty());
  EXPECT_EQ(session.Text("echo", {{"text", "hi"}}), "hi");
}

TEST(McpClientTest, SubscribesToChangesWhereThereIsNoHandshake) {
  Session session("stateless");
  ASSERT_TRUE(session);
  std::atomic<int> changes{0};
  session->set_tools_changed_callback([&] { ++changes; });
  // The subscription is made meanwhile.
  for (int attempt = 0; changes == 0 && attempt < 2000; ++attempt) {
    EXPECT_EQ(session.Text("change_tools"), "changed");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_GT(changes, 0);
  // It waits for no answer of its own.
  EXPECT_THAT(session.Text("no_id_error"), HasSubstr("can't read that"));
}

TEST(McpClientTest, RefusesParamsIntoWhichItCannotWrite) {
  for (const char* mode : {"normal", "stateless"}) {
    for (const bool wants_progress : {false, true}) {
      Session session(mode);
      ASSERT_TRUE(session);
      CallOptions options;
      if (wants_progress) {
        options.on_progress = [](double, double, const std::string&) {};
      }
      const auto code = [&](const Json& params) {
        return session->Request("resources/read", params, options)
            .status()
            .code();
      };
      for (const char* wrong : {"true", "7", "-1.5", "\"x\"", "[]", "[{}]"}) {
        const Json value = Json::parse(wrong);
        EXPECT_EQ(code(value), StatusCode::kInvalidArgument) << wrong;
        EXPECT_EQ(code({{"_meta", value}}), StatusCode::kInvalidArgument)
            << wrong;
      }
      for (const Json& right : {Json(), Json::object()}) {
        EXPECT_EQ(code(right), StatusCode::kOk);
        EXPECT_EQ(code({{"_meta", right}}), StatusCode::kOk);
      }
      EXPECT_EQ(session.Text("echo", {{"text", "hi"}}), "hi");
    }
  }
}

TEST(McpClientTest, RefusesAnUnknownRevision) {
  const Status status = ConnectError(Fake("future"));
  EXPECT_EQ(status.code(), StatusCode::kIncompatible);
  EXPECT_THAT(status.message(), HasSubstr("2031-01-01"));
  EXPECT_THAT(status.message(), HasSubstr("2025-11-25"));
}

TEST(McpClientTest, SaysThatTheCommandIsMissing) {
  McpServerConfig config = Fake("normal");
  config.command = "no-such-mcp-server";
  const Status status = ConnectError(config);
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("MCP server 'fake'"));
  EXPECT_THAT(status.message(), HasSubstr("no-such-mcp-server"));
  EXPECT_THAT(status.message(), HasSubstr("PATH"));
}

TEST(McpClientTest, SaysThatTheFileCannotBeRun) {
  McpServerConfig config = Fake("normal");
  config.command = "/etc/passwd";
  EXPECT_EQ(ConnectError(config).code(), StatusCode::kNotFound);
  config.command = "/no/such/file";
  EXPECT_EQ(ConnectError(config).code(), StatusCode::kNotFound);
}

TEST(McpClientTest, ShowsStderrOfAServerThatExitsAtOnce) {
  const Status status = ConnectError(Fake("exit"));
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("exited with code 7"));
  EXPECT_THAT(status.message(), HasSubstr("config.yaml: no such file"));
}

TEST(McpClientTest, GivesUpOnAServerThatNeverShakesHands) {
  McpServerConfig config = Fake("silent");
  config.connect_timeout_ms = 300;
  Status status;
  EXPECT_LT(ElapsedMs([&] { status = ConnectError(config); }), 10000);
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(), HasSubstr("handshake"));
}

TEST(McpClientTest, GivesUpOnAServerThatReadsNothing) {
  McpServerConfig config = Fake("deaf");
  config.connect_timeout_ms = 300;
  EXPECT_EQ(ConnectError(config).code(), StatusCode::kDeadlineExceeded);
}

TEST(McpClientTest, PassesTheRefusalOfTheHandshakeOn) {
  const Status status = ConnectError(Fake("refuse"));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("licence expired"));
}

TEST(McpClientTest, MentionsLogLinesWhenTheHandshakeFails) {
  // `echo` prints a line that isn't JSON-RPC, and exits.
  const Status status = ConnectError(
      {.name = "x", .command = "echo", .args = {"Usage: server [options]"}});
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_THAT(status.message(), HasSubstr("Usage: server"));
}

TEST(McpClientTest, PassesEnvironmentAndFolderAndNoOtherDescriptor) {
  const ScopedTempDir folder;
  McpServerConfig config = Fake("normal");
  config.env = {{"FAKE_VALUE", "a b"}};
  config.cwd = folder.path();
  ASSERT_OK_AND_ASSIGN(auto client, McpClient::Connect(config));
  ASSERT_OK_AND_ASSIGN(const CallResult result,
                       client->CallTool("environment", nullptr));
  EXPECT_EQ(result.text,
            "a b|" + std::filesystem::canonical(folder.path()).string() + "|0");
}

TEST(McpClientTest, RefusesAMissingFolder) {
  McpServerConfig config = Fake("normal");
  config.cwd = "/no/such/folder";
  const Status status = ConnectError(config);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("/no/such/folder"));
}

// ---- List ----

TEST(McpClientTest, ListsEveryPage) {
  Session session("pages");
  ASSERT_TRUE(session);
  std::vector<std::string> skipped;
  ASSERT_OK_AND_ASSIGN(const auto tools, session->ListTools(&skipped));
  ASSERT_EQ(tools.size(), 15u);
  EXPECT_EQ(tools.front().name, "tool_0");
  EXPECT_EQ(tools.back().name, "tool_14");
  EXPECT_EQ(tools.front().server, "fake");
  EXPECT_EQ(tools.front().parameters["properties"]["text"]["type"], "string");
  EXPECT_TRUE(skipped.empty());
}

TEST(McpClientTest, StopsAtACursorThatComesRoundAgain) {
  Session session("loop");
  ASSERT_TRUE(session);
  std::vector<std::string> skipped;
  ASSERT_OK_AND_ASSIGN(const auto tools, session->ListTools(&skipped));
  EXPECT_EQ(tools.size(), 15u);
  EXPECT_THAT(skipped, Contains(HasSubstr("comes round again")));
}

TEST(McpClientTest, StopsAtAnEndlessList) {
  Session session("endless", {.max_pages = 20});
  ASSERT_TRUE(session);
  std::vector<std::string> skipped;
  ASSERT_OK_AND_ASSIGN(auto tools, session->ListTools(&skipped));
  EXPECT_EQ(tools.size(), 60u);
  EXPECT_THAT(skipped, Contains(HasSubstr("20 pages")));

  Session bounded("endless", {.max_tools = 10});
  ASSERT_TRUE(bounded);
  ASSERT_OK_AND_ASSIGN(tools, bounded->ListTools(&skipped));
  EXPECT_EQ(tools.size(), 10u);
}

TEST(McpClientTest, LeavesOnlyTheBrokenToolsOut) {
  Session good;
  Session broken("broken-tools");
  ASSERT_TRUE(good && broken);
  std::vector<std::string> skipped;
  ASSERT_OK_AND_ASSIGN(const auto expected, good->ListTools());
  ASSERT_OK_AND_ASSIGN(const auto tools, broken->ListTools(&skipped));
  EXPECT_EQ(tools.size(), expected.size());
  EXPECT_EQ(skipped.size(), 4u);
  EXPECT_THAT(skipped, Contains(HasSubstr("a second one named 'echo'")));
}

TEST(McpClientTest, RefusesAListThatIsNone) {
  Session session("bad-list");
  ASSERT_TRUE(session);
  EXPECT_EQ(session->ListTools().status().code(), StatusCode::kCorruption);
}

TEST(McpClientTest, ListsNothingOfAServerWithoutTools) {
  Session session("no-tools");
  ASSERT_TRUE(session);
  ASSERT_OK_AND_ASSIGN(const auto tools, session->ListTools());
  EXPECT_TRUE(tools.empty());
}

// ---- Call ----

TEST(McpClientTest, CallsATool) {
  Session session;
  ASSERT_TRUE(session);
  EXPECT_EQ(session.Text("echo", {{"text",
                                   "gr\xC3\xBC\xC3\x9F"
                                   " dich \"\n\\"}}),
            "gr\xC3\xBC\xC3\x9F dich \"\n\\");
}

TEST(McpClientTest, ReadsEveryKindOfContent) {
  Session session;
  ASSERT_TRUE(session);
  ASSERT_OK_AND_ASSIGN(const CallResult result,
                       session->CallTool("parts", nullptr));
  EXPECT_EQ(result.text,
            "a\n[image/png, 4 bytes of base64]\nb\n[link f:y]\n[new]\n"
            "[unknown part]");
  EXPECT_EQ(result.structured, Json({{"n", 1}}));
  EXPECT_EQ(result.raw["content"].size(), 6u);
  EXPECT_FALSE(result.is_error);
}

TEST(McpClientTest, TellsAToolsErrorFromAProtocolError) {
  Session session;
  ASSERT_TRUE(session);
  ASSERT_OK_AND_ASSIGN(const CallResult result,
                       session->CallTool("tool_error", nullptr));
  EXPECT_TRUE(result.is_error);
  EXPECT_EQ(result.text, "no such city");
  const auto refused = session->CallTool("rpc_error", nullptr);
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("'rpc_error'"));
  EXPECT_THAT(refused.status().message(), HasSubstr("text is missing"));
  EXPECT_EQ(session->CallTool("unknown", nullptr).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(session->CallTool("echo", Json::array()).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(session->CallTool("bad_result", nullptr).status().code(),
            StatusCode::kCorruption);
}

TEST(McpClientTest, CancelsACallAtItsTimeoutAndGoesOn) {
  Session session;
  ASSERT_TRUE(session);
  const auto hung = session->CallTool("hang", nullptr, {.timeout_ms = 100});
  EXPECT_EQ(hung.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(hung.status().message(), HasSubstr("100 ms"));
  EXPECT_EQ(session.Text("count_cancelled"), "1");
  EXPECT_FALSE(session->closed());
}

TEST(McpClientTest, CancelsACallWhenAsked) {
  Session session;
  ASSERT_TRUE(session);
  std::atomic<bool> cancel{false};
  std::thread canceller([&] {
    std::this_thread::sleep_for(milliseconds(50));
    cancel = true;
  });
  Status status;
  EXPECT_LT(ElapsedMs([&] {
              status = session
                           ->CallTool("hang", nullptr,
                                      {.timeout_ms = 20000, .cancel = &cancel})
                           .status();
            }),
            10000);
  canceller.join();
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_EQ(session.Text("count_cancelled"), "1");
}

TEST(McpClientTest, ReportsProgress) {
  Session session;
  ASSERT_TRUE(session);
  std::vector<double> steps;
  ASSERT_OK(session->CallTool("progress", nullptr,
                              {.on_progress = [&](double done, double total,
                                                  const std::string& message) {
                                EXPECT_EQ(total, 3);
                                EXPECT_EQ(message, "step");
                                steps.push_back(done);
                              }}));
  EXPECT_EQ(steps, (std::vector<double>{1, 2, 3}));
}

TEST(McpClientTest, ServesManyCallersAtOnce) {
  Session session;
  ASSERT_TRUE(session);
  std::atomic<int> good{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string text = std::to_string(t * 1000 + i);
        if (session.Text("echo", {{"text", text}}) == text) ++good;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(good, 400);
}

TEST(McpClientTest, AnswersTheServersRequests) {
  Session session;
  ASSERT_TRUE(session);
  EXPECT_EQ(session.Text("ask_client"),
            "s-ping={};s-roots/list={\"roots\":[]};"
            "s-sampling/createMessage=-32601;");
  EXPECT_EQ(session->counters().refused_requests, 1u);
}

TEST(McpClientTest, SaysThatTheToolsChanged) {
  Session session;
  ASSERT_TRUE(session);
  std::atomic<int> changes{0};
  session->set_tools_changed_callback([&] { ++changes; });
  EXPECT_EQ(session.Text("change_tools"), "changed");
  EXPECT_EQ(changes, 1);
}

// ---- Bad streams ----

TEST(McpClientTest, ShowsStderrOfAServerThatDiesInACall) {
  Session session;
  ASSERT_TRUE(session);
  const auto died = session->CallTool("die", nullptr);
  EXPECT_EQ(died.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(died.status().message(), HasSubstr("MCP server 'fake'"));
  EXPECT_THAT(died.status().message(), HasSubstr("exited with code 3"));
  EXPECT_THAT(died.status().message(), HasSubstr("out of cheese"));
  EXPECT_TRUE(session->closed());
}

TEST(McpClientTest, NamesTheSignalThatKilledTheServer) {
  Session session;
  ASSERT_TRUE(session);
  EXPECT_THAT(session.Text("crash"), HasSubstr("killed by signal 9"));
}

TEST(McpClientTest, FailsAtOnceOnADeadServer) {
  Session session("exit-after-handshake");
  ASSERT_TRUE(session);
  // The first ones may still find a pipe to write to: no SIGPIPE either way.
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(session->CallTool("echo", {{"text", std::string(300000, 'x')}})
                  .status()
                  .code(),
              StatusCode::kUnavailable);
  }
  EXPECT_TRUE(session->closed());
}

TEST(McpClientTest, PutsHalfLinesTogether) {
  Session session;
  ASSERT_TRUE(session);
  EXPECT_EQ(session.Text("half_then_rest"), "whole");
}

TEST(McpClientTest, ReportsHalfALineThatStaysHalf) {
  Session session;
  ASSERT_TRUE(session);
  const std::string error = session.Text("half_then_die");
  EXPECT_THAT(error, HasSubstr("exited with code 4"));
  EXPECT_THAT(error, HasSubstr("in the middle of a line (25 bytes"));
}

TEST(McpClientTest, SkipsAndCountsLogLines) {
  Session session("noise");
  ASSERT_TRUE(session);
  EXPECT_EQ(session.Text("logs"), "logged");
  EXPECT_EQ(session->counters().skipped_texts, 4u);
}

TEST(McpClientTest, SkipsWhatIsNoMessage) {
  Session session;
  ASSERT_TRUE(session);
  EXPECT_EQ(session.Text("not_objects"), "after rubbish");
  EXPECT_EQ(session->counters().skipped_texts, 7u);
}

TEST(McpClientTest, ReadsABatch) {
  Session session("old");
  ASSERT_TRUE(session);
  EXPECT_EQ(session.Text("batch"), "in a batch");
}

TEST(McpClientTest, SkipsInvalidUtf8) {
  Session session;
  ASSERT_TRUE(session);
  EXPECT_EQ(session.Text("bad_utf8"), "clean");
  EXPECT_EQ(session->counters().skipped_texts, 1u);
}

TEST(McpClientTest, IgnoresAnswersThatNobodyWaitsFor) {
  Session session;
  ASSERT_TRUE(session);
  EXPECT_EQ(session.Text("wrong_id"), "right");
  EXPECT_EQ(session->counters().unexpected_answers, 2u);
  EXPECT_EQ(session.Text("duplicate"), "first");
  EXPECT_OK(session->Ping());  // behind the second answer
  EXPECT_EQ(session->counters().unexpected_answers, 3u);
}

TEST(McpClientTest, GivesAnErrorWithoutIdToTheOnlyRequest) {
  Session session;
  ASSERT_TRUE(session);
  EXPECT_THAT(session.Text("no_id_error"), HasSubstr("can't read that"));
}

TEST(McpClientTest, SurvivesAFloodOfNotifications) {
  std::atomic<int> logged{0};
  Session session("normal", {.log = [&](const std::string&,
                                        const std::string&) { ++logged; }});
  ASSERT_TRUE(session);
  EXPECT_EQ(session.Text("flood"), "survived");
  EXPECT_EQ(session->counters().notifications, 20000u);
  EXPECT_EQ(logged, 20000);
}

TEST(McpClientTest, BoundsALineOf100Megabytes) {
  Session session("normal", {.max_message_bytes = size_t{1} << 20});
  ASSERT_TRUE(session);
  const auto huge = session->CallTool("huge", nullptr);
  EXPECT_EQ(huge.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(huge.status().message(), HasSubstr("1048576"));
  EXPECT_EQ(session.Text("echo", {{"text", "still here"}}), "still here");
}

// ---- End ----

TEST(McpClientTest, IsNotHeldUpByAGrandchildOnThePipe) {
  Session session("grandchild");
  ASSERT_TRUE(session);
  Status status;
  EXPECT_LT(
      ElapsedMs([&] { status = session->CallTool("die", nullptr).status(); }),
      8000);
  EXPECT_THAT(status.message(), HasSubstr("exited with code 3"));
  EXPECT_LT(ElapsedMs([&] { EXPECT_OK(session->Close()); }), 8000);
}

TEST(McpClientTest, EndsAServerThatIgnoresTheEndOfInputAndSigterm) {
  Session session("stubborn");
  ASSERT_TRUE(session);
  EXPECT_LT(ElapsedMs([&] { EXPECT_OK(session->Close()); }), 15000);
}

TEST(McpClientTest, CloseFreesTheWaitingCall) {
  Session session;
  ASSERT_TRUE(session);
  Status status;
  std::thread caller(
      [&] { status = session->CallTool("hang", nullptr).status(); });
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_OK(session->Close());
  caller.join();
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  EXPECT_OK(session->Close());
  EXPECT_EQ(session->CallTool("echo", nullptr).status().code(),
            StatusCode::kCancelled);
}

}  // namespace
}  // namespace nexus::mcp
