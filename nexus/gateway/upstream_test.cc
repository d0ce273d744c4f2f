#include "nexus/gateway/upstream.h"

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/gateway/testing/fake_servers.h"

namespace nexus::gateway {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class UpstreamTest : public testing::Test {
 protected:
  std::unique_ptr<Upstream> Start(mcp::McpServerConfig config,
                                  milliseconds pause = milliseconds(20)) {
    UpstreamOptions options;
    options.backoff = {.first = pause, .longest = pause};
    auto upstream = std::make_unique<Upstream>(
        std::move(config), options,
        UpstreamEvents{.on_change = [this] { ++changes_; },
                       .on_notification = nullptr,
                       .note = nullptr});
    upstream->Start();
    EXPECT_TRUE(Eventually([&] { return upstream->settled(); }));
    return upstream;
  }
  static Result<mcp::RpcResponse> Call(Upstream* upstream, const char* tool) {
    return upstream->Request("tools/call",
                             {{"name", tool}, {"arguments", {{"text", "hi"}}}});
  }

  std::atomic<int> changes_{0};
};

TEST_F(UpstreamTest, ListsEverythingThatTheServerOffers) {
  const auto upstream = Start(FakeServer("notes", "rich"));
  const UpstreamView view = upstream->view();
  EXPECT_EQ(view.state, UpstreamState::kReady);
  EXPECT_EQ(view.lists->tools.size(), 8u);
  ASSERT_EQ(view.lists->raw_tools.size(), 8u);
  EXPECT_EQ(view.lists->tools[0].server, "notes");
  EXPECT_EQ(view.lists->raw_tools[0]["_meta"]["example/x"], 1);
  EXPECT_EQ(view.lists->prompts.size(), 1u);
  EXPECT_EQ(view.lists->resources.size(), 1u);
  EXPECT_EQ(view.lists->templates.size(), 1u);
  EXPECT_EQ(view.info.name, "rich");
}

TEST_F(UpstreamTest, ListsAgainWhenTheServerSaysSo) {
  const auto upstream = Start(FakeServer("notes", "rich"));
  ASSERT_OK(Call(upstream.get(), "grow"));
  EXPECT_TRUE(
      Eventually([&] { return upstream->view().lists->tools.size() == 9; }));
  EXPECT_GE(changes_, 2);
}

TEST_F(UpstreamTest, StartsAServerThatDiedAnew) {
  const auto upstream = Start(FakeServer("a", "normal"));
  const auto died = Call(upstream.get(), "die");
  EXPECT_EQ(died.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(died.status().message(), HasSubstr("out of cheese"));
  EXPECT_TRUE(Eventually([&] {
    const auto answer = Call(upstream.get(), "echo");
    return answer.ok() && answer->result["content"][0]["text"] == "hi";
  }));
}

TEST_F(UpstreamTest, KeepsTheListOfAServerThatIsDownAndSaysWhyItIs) {
  const auto upstream =
      Start(FakeServer("a", "normal"), std::chrono::seconds(100));
  ASSERT_FALSE(Call(upstream.get(), "die").ok());
  ASSERT_TRUE(Eventually(
      [&] { return upstream->view().state == UpstreamState::kDown; }));
  const UpstreamView view = upstream->view();
  EXPECT_FALSE(view.lists->tools.empty());
  EXPECT_THAT(view.problem, HasSubstr("out of cheese"));
  EXPECT_GT(view.retry_in, std::chrono::seconds(10));
  const auto call = Call(upstream.get(), "echo");
  EXPECT_EQ(call.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(call.status().message(), HasSubstr("started again in"));
}

TEST_F(UpstreamTest, TriesAgainWhenAServerCantBeStarted) {
  const ScopedTempDir dir;
  mcp::McpServerConfig config = FakeServer("late", "normal");
  // Not there at first.
  config.command = dir.File("server");
  const auto upstream = Start(config);
  EXPECT_EQ(upstream->view().state, UpstreamState::kDown);
  EXPECT_TRUE(upstream->view().lists->tools.empty());
  std::filesystem::create_symlink(NEXUS_FAKE_MCP_SERVER, dir.File("server"));
  EXPECT_TRUE(Eventually(
      [&] { return upstream->view().state == UpstreamState::kReady; }));
}

TEST_F(UpstreamTest, HandsOnWhatTheServerRefuses) {
  const auto upstream = Start(FakeServer("notes", "rich"));
  ASSERT_OK_AND_ASSIGN(const mcp::RpcResponse answer,
                       Call(upstream.get(), "refuse"));
  ASSERT_TRUE(answer.error.has_value());
  EXPECT_EQ(answer.error->code, -32042);
  EXPECT_EQ(answer.error->data["why"], "fake");
}

TEST_F(UpstreamTest, DoesntStartADisabledServer) {
  mcp::McpServerConfig config = FakeServer("off", "normal");
  config.disabled = true;
  const auto upstream = Start(config);
  EXPECT_EQ(upstream->view().state, UpstreamState::kDisabled);
  EXPECT_THAT(Call(upstream.get(), "echo").status().message(),
              HasSubstr("disabled"));
}

TEST_F(UpstreamTest, EndsSoonWhateverTheServerDoes) {
  for (const char* mode : {"silent", "stubborn", "deaf"}) {
    auto upstream = std::make_unique<Upstream>(
        FakeServer(mode, mode), UpstreamOptions(), UpstreamEvents());
    upstream->Start();
    std::this_thread::sleep_for(milliseconds(50));
    const auto start = std::chrono::steady_clock::now();
    upstream.reset();
    // Without the hurry it is the 20 s of the handshake, or four of a stop.
    EXPECT_LT(std::chrono::steady_clock::now() - start,
              std::chrono::milliseconds(3500))
        << mode;
  }
}

}  // namespace
}  // namespace nexus::gateway
