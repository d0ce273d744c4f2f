#include "nexus/gateway/stdio_server.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/base/unique_fd.h"
#include "nexus/gateway/testing/fake_servers.h"

namespace nexus::gateway {
namespace {

using testing::HasSubstr;

// The server on pipes, as a client has them.
class StdioServerTest : public testing::Test {
 protected:
  void SetUp() override {
    std::signal(SIGPIPE, SIG_IGN);
    Start({});
  }
  void Start(StdioServerOptions options) {
    if (!gateway_) {
      gateway_ = MakeGateway(FakeOptions({FakeServer("a", "normal")}));
    }
    int in[2];
    int out[2];
    ASSERT_EQ(::pipe(in), 0);
    ASSERT_EQ(::pipe(out), 0);
    server_in_.Reset(in[0]);
    to_.Reset(in[1]);
    from_.Reset(out[0]);
    server_out_.Reset(out[1]);
    options.in_fd = in[0];
    options.out_fd = out[1];
    options.stop = &stop_;
    options.version = "1";
    ended_ = false;
    thread_ = std::thread([this, options] {
      status_ = ServeStdio(gateway_.get(), options);
      ended_ = true;
    });
  }
  void TearDown() override { End(); }
  void End() {
    to_.Reset();
    if (thread_.joinable()) thread_.join();
  }

  void Write(const std::string& bytes) {
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t count =
          ::write(to_.get(), bytes.data() + done, bytes.size() - done);
      ASSERT_GT(count, 0);
      done += static_cast<size_t>(count);
    }
  }
  // The next line; empty at the end of the output, or after 20 s without one.
  std::string ReadLine() {
    while (buffer_.find('\n') == std::string::npos) {
      pollfd wait{.fd = from_.get(), .events = POLLIN, .revents = 0};
      if (::poll(&wait, 1, 20000) <= 0) return {};
      char piece[4096];
      const ssize_t count = ::read(from_.get(), piece, sizeof piece);
      if (count <= 0) return {};
      buffer_.append(piece, static_cast<size_t>(count));
    }
    const size_t end = buffer_.find('\n');
    std::string line = buffer_.substr(0, end);
    buffer_.erase(0, end + 1);
    return line;
  }
  Json Read() { return Json::parse(ReadLine(), nullptr, false); }
  void Handshake(const std::string& revision = "2025-11-25") {
    Write(R"({"jsonrpc":"2.0","id":"i","method":"initialize","params":)"
          R"({"protocolVersion":")" +
          revision + "\"}}\n");
    EXPECT_EQ(Read()["id"], "i");
    Write(R"({"jsonrpc":"2.0","method":"notifications/initialized"})"
          "\n");
  }
  static std::string CallLine(int id, const std::string& tool,
                              const std::string& arguments = "{}") {
    return R"({"jsonrpc":"2.0","id":)" + std::to_string(id) +
           R"(,"method":"tools/call","params":{"name":"a__)" + tool +
           R"(","arguments":)" + arguments + "}}\n";
  }

  std::unique_ptr<Gateway> gateway_;
  UniqueFd server_in_;
  UniqueFd server_out_;
  UniqueFd to_;
  UniqueFd from_;
  std::string buffer_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> ended_{false};
  Status status_;
  std::thread thread_;
};

TEST_F(StdioServerTest, AnswersBrokenLinesAndGoesOn) {
  for (const auto& [line, code] : {std::pair<std::string, int>{"{", -32700},
                                   {"nonsense", -32700},
                                   {"42", -32600},
                                   {"{}", -32600},
                                   {R"({"jsonrpc":"1.0","id":1})", -32600},
                                   {"[]", -32600},
                                   {std::string(300, '['), -32700}}) {
    Write(line + "\n");
    const Json answer = Read();
    EXPECT_EQ(answer["error"]["code"], code) << line << " " << answer;
  }
  // Whose it was, where that can be told.
  Write(R"({"jsonrpc":"2.0","id":9,"method":7})"
        "\n");
  EXPECT_EQ(Read()["id"], 9);
  Write("\n\r\n  \n");
  Handshake();
  Write(CallLine(1, "echo", R"({"text":"x"})"));
  EXPECT_EQ(Read()["result"]["content"][0]["text"], "x");
}

TEST_F(StdioServerTest, DropsAMessageThatIsTooLong) {
  const std::string piece(size_t{1} << 20, 'x');
  for (int i = 0; i < 17; ++i) Write(piece);
  Write("\n");
  EXPECT_THAT(Read()["error"]["message"].get<std::string>(),
              HasSubstr("at most"));
  Handshake();
}

TEST_F(StdioServerTest, ReadsOnWhileAToolHangs) {
  Handshake();
  Write(CallLine(1, "hang"));
  Write(R"({"jsonrpc":"2.0","id":2,"method":"ping"})"
        "\n");
  EXPECT_EQ(Read()["id"], 2);
  // In the very next line.
  Write(CallLine(3, "hang") +
        R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":)"
        R"({"requestId":3}})"
        "\n");
  Write(R"({"jsonrpc":"2.0","method":"notifications/cancelled","params":)"
        R"({"requestId":1}})"
        "\n");
  Write(CallLine(4, "echo", R"({"text":"x"})"));
  EXPECT_EQ(Read()["id"], 4);
}

TEST_F(StdioServerTest, AnswersBatchesInTheRevisionThatHasThem) {
  const std::string batch = R"([{"jsonrpc":"2.0","id":1,"method":"ping"},)"
                            R"({"jsonrpc":"2.0","method":"notifications/x"},)"
                            R"({"jsonrpc":"2.0","id":2,"method":"tools/list"}])"
                            "\n";
  Write(batch);
  EXPECT_EQ(Read()["error"]["code"], -32600);
  Handshake("2025-03-26");
  Write(batch);
  const Json answers = Read();
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0]["id"], 1);
  EXPECT_EQ(answers[1]["result"]["tools"].size(), 2u);
}

TEST_F(StdioServerTest, AnswersWhatWasAskedBeforeTheEnd) {
  Handshake();
  Write(CallLine(1, "half_then_rest"));
  to_.Reset();
  EXPECT_EQ(Read()["result"]["content"][0]["text"], "whole");
  thread_.join();
  EXPECT_OK(status_);
}

TEST_F(StdioServerTest, EndsAtOnceWhenAskedTo) {
  Handshake();
  Write(CallLine(1, "hang"));
  const auto start = std::chrono::steady_clock::now();
  stop_ = true;
  thread_.join();
  EXPECT_LT(std::chrono::steady_clock::now() - start,
            std::chrono::milliseconds(5000));
}

TEST_F(StdioServerTest, EndsWhenTheClientHasClosedItsEnd) {
  from_.Reset();
  Write(R"({"jsonrpc":"2.0","id":1,"method":"ping"})"
        "\n");
  EXPECT_TRUE(Eventually([&] { return ended_.load(); }));
}

TEST_F(StdioServerTest, GivesUpAClientThatDoesntRead) {
  End();
  Start({.max_unread_bytes = size_t{1} << 18});
  Handshake();
  const std::string text(size_t{1} << 14, 'x');
  // Once it has given up nobody empties the pipe.
  ASSERT_EQ(::fcntl(to_.get(), F_SETFL, O_NONBLOCK), 0);
  std::string unsent;
  int id = 0;
  EXPECT_TRUE(Eventually([&] {
    if (unsent.empty()) {
      unsent = CallLine(id++, "echo", R"({"text":")" + text + "\"}");
    }
    const ssize_t count = ::write(to_.get(), unsent.data(), unsent.size());
    if (count > 0) unsent.erase(0, static_cast<size_t>(count));
    return ended_.load();
  }));
  thread_.join();
  EXPECT_EQ(status_.code(), StatusCode::kResourceExhausted);
}

// No handshake, from the first line on.
TEST_F(StdioServerTest, ServesTheRevisionWithoutAHandshake) {
  const std::string meta =
      R"("_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",)"
      R"("io.modelcontextprotocol/clientCapabilities":{}})";
  const auto line = [&](const std::string& id, const std::string& method,
                        const std::string& params = {}) {
    return R"({"jsonrpc":"2.0","id":)" + id + R"(,"method":")" + method +
           R"(","params":{)" + params + meta + "}}\n";
  };
  Write(line("1", "server/discover"));
  EXPECT_EQ(Read()["result"]["supportedVersions"][0], "2026-07-28");
  Write(
      line("2", "tools/call", R"("name":"a__echo","arguments":{"text":"x"},)"));
  const Json called = Read();
  EXPECT_EQ(called["result"]["content"][0]["text"], "x");
  EXPECT_EQ(called["result"]["resultType"], "complete");
  Write(line("\"news\"", "subscriptions/listen",
             R"("notifications":{"promptsListChanged":true},)"));
  const Json granted = Read();
  EXPECT_EQ(granted["method"], "notifications/subscriptions/acknowledged");
  EXPECT_EQ(granted["params"]["notifications"]["promptsListChanged"], true);
  Write(line("3", "ping"));
  EXPECT_EQ(Read()["error"]["code"], -32601);
  // An open subscription keeps nobody waiting, and is answered at last.
  const auto before = std::chrono::steady_clock::now();
  End();
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(5));
  const Json last = Read();
  EXPECT_EQ(last["id"], "news");
  EXPECT_EQ(last["result"]["resultType"], "complete");
}

}  // namespace
}  // namespace nexus::gateway
