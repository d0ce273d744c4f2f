#include "nexus/llm/rpc_devices.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <thread>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/base/unique_fd.h"
#include "nexus/llm/context.h"
#include "nexus/llm/testing/rpc_server.h"
#include "nexus/llm/testing/tiny_model.h"

namespace nexus::llm {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// Answers one connection with these bytes, and keeps it open or not.
class Impostor {
 public:
  Impostor(std::string answer, bool closes) {
    listener_ = testing::BindToLoopback(&port_);
    EXPECT_EQ(::listen(listener_.get(), 1), 0);
    thread_ = std::thread([this, answer = std::move(answer), closes] {
      UniqueFd client(::accept(listener_.get(), nullptr, nullptr));
      if (!client.valid()) return;
      ::send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
      if (closes) return;
      // Until the other side has gone.
      std::array<char, 256> ignored;
      while (::recv(client.get(), ignored.data(), ignored.size(), 0) > 0) {
      }
    });
  }
  ~Impostor() {
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }

  std::string endpoint() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  UniqueFd listener_;
  int port_ = 0;
  std::thread thread_;
};

std::string Greeting(uint8_t major, uint8_t minor) {
  std::string text(8 + 28, '\0');
  text[0] = 28;  // little-endian, as every machine that the engine runs on
  text[8] = static_cast<char>(major);
  text[9] = static_cast<char>(minor);
  return text;
}

TEST(ProbeRpcServerTest, WantsAHostAndAPort) {
  for (const char* bad :
       {"", ":", "host", "host:", ":50052", "host:port", "host:0", "host:65536",
        "host:50052x", "http://host:50052"}) {
    EXPECT_EQ(ProbeRpcServer(bad, milliseconds(100)).code(),
              StatusCode::kInvalidArgument)
        << bad;
  }
}

TEST(ProbeRpcServerTest, SaysThatNobodyAnswers) {
  std::string endpoint;
  {
    Impostor gone("", true);
    endpoint = gone.endpoint();
  }
  const Status status = ProbeRpcServer(endpoint, milliseconds(2000));
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_THAT(status.message(), HasSubstr(endpoint));
  EXPECT_EQ(ProbeRpcServer("no-such-host.invalid:1", milliseconds(2000)).code(),
            StatusCode::kUnavailable);
}

TEST(ProbeRpcServerTest, KnowsAnImpostor) {
  struct Case {
    const char* what;
    std::string answer;
    bool closes;
  };
  const Case cases[] = {
      {"HTTP", "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", true},
      {"nothing", "", true},
      {"silence", "", false},
      {"half a length", std::string(3, '\0'), true},
      {"half an answer", Greeting(6, 0).substr(0, 20), true},
      {"an older version", Greeting(5, 0), false},
      {"a newer version", Greeting(6, 200), false},
  };
  for (const auto& [what, answer, closes] : cases) {
    Impostor server(answer, closes);
    const Status status = ProbeRpcServer(server.endpoint(), milliseconds(500));
    EXPECT_EQ(status.code(), StatusCode::kIncompatible) << what;
    EXPECT_THAT(status.message(), HasSubstr(server.endpoint())) << what;
  }
}

class RpcModelTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server_ = std::make_unique<testing::RpcServer>();
  }
  static void TearDownTestSuite() { server_.reset(); }

  static std::unique_ptr<testing::RpcServer> server_;
};

std::unique_ptr<testing::RpcServer> RpcModelTest::server_;

TEST_F(RpcModelTest, DecodesAsHere) {
  ScopedTempDir dir;
  const std::string path = dir.File("tiny.gguf");
  ASSERT_OK(testing::WriteTinyModel(path, {}));
  std::vector<Token> tokens(40);
  for (size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = 10 + static_cast<Token>(i) * 3;
  }
  std::vector<std::vector<float>> rows;
  for (const int layers : {0, 2, -1}) {
    ModelOptions options = {.path = path, .gpu_layers = layers};
    if (layers != 0) options.rpc_servers = {server_->endpoint()};
    ASSERT_OK_AND_ASSIGN(const auto model, Model::Load(options));
    ASSERT_OK_AND_ASSIGN(
        const auto context,
        Context::Create(model, {.context_tokens = 256, .threads = 1}));
    ASSERT_OK(context->Decode(tokens, 0, 0, Logits::kLast));
    const auto row = context->LogitsRow(0);
    rows.emplace_back(row.begin(), row.end());
  }
  for (size_t i = 0; i < rows[0].size(); ++i) {
    EXPECT_NEAR(rows[0][i], rows[1][i], 1e-3);
    EXPECT_NEAR(rows[0][i], rows[2][i], 1e-3);
  }
}

TEST_F(RpcModelTest, AServerThatIsNotThereIsAnError) {
  ScopedTempDir dir;
  const std::string path = dir.File("tiny.gguf");
  ASSERT_OK(testing::WriteTinyModel(path, {}));
  const auto model =
      Model::Load({.path = path,
                   .gpu_layers = -1,
                   .rpc_servers = {server_->endpoint(), "127.0.0.1:1"}});
  EXPECT_EQ(model.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(model.status().message(), HasSubstr("127.0.0.1:1"));
}

}  // namespace
}  // namespace nexus::llm
