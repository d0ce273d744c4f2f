#include "nexus/serve/tool_router.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "nexus/base/test_util.h"
#include "nexus/route/testing/fake_embedder.h"
#include "nexus/route/testing/sample_tools.h"

namespace nexus::serve {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// What the encoder of a test is told, and what it has done.
struct Encoding {
  std::atomic<int> texts{0};
  std::atomic<bool> is_held{false};  // it waits before every piece
  std::atomic<int> piece_ms{0};
};

class SlowEmbedder : public route::FakeEmbedder {
 public:
  explicit SlowEmbedder(Encoding* encoding) : encoding_(encoding) {}

  Result<std::vector<std::vector<float>>> Embed(
      std::span<const std::string> texts, llm::TextRole role) override {
    std::this_thread::sleep_for(milliseconds(encoding_->piece_ms));
    encoding_->texts += static_cast<int>(texts.size());
    while (encoding_->is_held) std::this_thread::sleep_for(milliseconds(1));
    return FakeEmbedder::Embed(texts, role);
  }

 private:
  Encoding* const encoding_;
};

class ToolRouterTest : public testing::Test {
 protected:
  std::unique_ptr<ToolRouter> MakeRouter(
      const ToolRouterOptions& options = {}) {
    return std::make_unique<ToolRouter>(
        std::make_unique<SlowEmbedder>(&encoding_), options);
  }
  static std::vector<schema::ToolSchema> Tools(const std::string& name,
                                               int count) {
    std::vector<schema::ToolSchema> tools;
    for (int i = 0; i < count; ++i) {
      const std::string number = std::to_string(i);
      tools.push_back(route::Tool(name + number, "does " + name + number));
    }
    return tools;
  }
  static StatusCode Code(ToolRouter& router,
                         const std::vector<schema::ToolSchema>& tools,
                         const Caller& caller = {}) {
    return router.Route(tools, "does a0", {}, caller).status().code();
  }
  static Caller Within(milliseconds time) {
    return {.deadline = steady_clock::now() + time};
  }
  // Until the encoder has seen that many texts.
  void AwaitTexts(int count) const {
    const auto end = steady_clock::now() + milliseconds(10000);
    while (encoding_.texts < count && steady_clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  }

  Encoding encoding_;
};

TEST_F(ToolRouterTest, ALongListIsGivenUpAtTheDeadline) {
  encoding_.piece_ms = 20;
  const auto router = MakeRouter();
  const auto tools = Tools("a", 2000);  // five seconds
  EXPECT_EQ(Code(*router, tools, Within(milliseconds(100))),
            StatusCode::kDeadlineExceeded);
  EXPECT_LT(encoding_.texts, 1000);
}

TEST_F(ToolRouterTest, ALongListIsGivenUpWhenItsClientLeaves) {
  encoding_.piece_ms = 20;
  const auto router = MakeRouter();
  const auto tools = Tools("a", 2000);
  const Caller leaves = {
      .is_client_gone = [&] { return encoding_.texts > 64; }};
  EXPECT_EQ(Code(*router, tools, leaves), StatusCode::kCancelled);
  EXPECT_LT(encoding_.texts, 1000);
}

TEST_F(ToolRouterTest, WhoComesTooLateBuildsNothing) {
  const auto router = MakeRouter();
  EXPECT_EQ(Code(*router, Tools("a", 3), Within(milliseconds(0))),
            StatusCode::kDeadlineExceeded);
  EXPECT_EQ(encoding_.texts, 0);
}

TEST_F(ToolRouterTest, BuildsOnlySoManyListsAtOnce) {
  const auto router = MakeRouter({.max_builds = 1});
  encoding_.is_held = true;
  auto first = std::async(std::launch::async,
                          [&] { return Code(*router, Tools("a", 3)); });
  AwaitTexts(3);
  // Others wait outside of the encoder, and give up by themselves.
  EXPECT_EQ(Code(*router, Tools("b", 3), Within(milliseconds(50))),
            StatusCode::kDeadlineExceeded);
  EXPECT_EQ(
      Code(*router, Tools("c", 3), {.is_client_gone = [] { return true; }}),
      StatusCode::kCancelled);
  EXPECT_EQ(encoding_.texts, 3);
  encoding_.is_held = false;
  EXPECT_EQ(first.get(), StatusCode::kOk);
  EXPECT_EQ(Code(*router, Tools("b", 3)), StatusCode::kOk);
}

TEST_F(ToolRouterTest, OneListIsBuiltOnceForAllWhoWantIt) {
  encoding_.piece_ms = 5;
  const auto router = MakeRouter();
  const auto tools = Tools("a", 100);
  std::vector<std::future<StatusCode>> all;
  all.reserve(4);
  for (int i = 0; i < 4; ++i) {
    all.push_back(
        std::async(std::launch::async, [&] { return Code(*router, tools); }));
  }
  for (auto& one : all) EXPECT_EQ(one.get(), StatusCode::kOk);
  EXPECT_EQ(encoding_.texts, 100 + 4);  // the tools, and four queries
}

TEST_F(ToolRouterTest, ABuildThatItsCallerLeftIsDoneByWhoWaitsForIt) {
  const auto router = MakeRouter();
  const auto tools = Tools("a", 64);
  std::atomic<bool> has_left{false};
  encoding_.is_held = true;
  const Caller leaves = {.is_client_gone = [&] { return has_left.load(); }};
  auto first = std::async(std::launch::async,
                          [&] { return Code(*router, tools, leaves); });
  AwaitTexts(8);
  auto second =
      std::async(std::launch::async, [&] { return Code(*router, tools); });
  has_left = true;
  encoding_.is_held = false;
  EXPECT_EQ(first.get(), StatusCode::kCancelled);
  EXPECT_EQ(second.get(), StatusCode::kOk);
}

TEST_F(ToolRouterTest, EmbeddingAndScoringEndAtTheDeadlineToo) {
  encoding_.piece_ms = 20;
  const auto router = MakeRouter();
  const std::vector<std::string> texts(1000, "text");
  EXPECT_EQ(
      router->Embed(texts, llm::TextRole::kDocument, Within(milliseconds(50)))
          .status()
          .code(),
      StatusCode::kDeadlineExceeded);
  EXPECT_EQ(
      router->Score("query", texts, Within(milliseconds(50))).status().code(),
      StatusCode::kDeadlineExceeded);
  EXPECT_LT(encoding_.texts, 1000);
  encoding_.piece_ms = 0;
  ASSERT_OK_AND_ASSIGN(const auto scores, router->Score("query", texts));
  EXPECT_EQ(scores.size(), texts.size());
}

}  // namespace
}  // namespace nexus::serve
