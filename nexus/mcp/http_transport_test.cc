// The client over streamable HTTP, against a server made for each test.
#include "nexus/mcp/http_transport.h"

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "gmock/gmock.h"

#include "nexus/base/clock.h"
#include "nexus/base/json.h"
#include "nexus/base/test_util.h"
#include "nexus/mcp/client.h"
#include "nexus/net/testing/http_test_server.h"

namespace nexus::mcp {
namespace {

using net::HttpTestServer;
using net::TestRequest;
using net::TestResponse;
using net::TestWriter;
using std::chrono::milliseconds;
using testing::HasSubstr;

std::string Answer(const Json& id, const Json& result) {
  return DumpJson({{"jsonrpc", "2.0"}, {"id", id}, {"result", result}});
}

std::string Event(const std::string& data, const std::string& id = "") {
  return (id.empty() ? "" : "id: " + id + "\n") + "data: " + data + "\n\n";
}

Json TextResult(const std::string& text) {
  return {{"content", Json::array({{{"type", "text"}, {"text", text}}})}};
}

TestResponse Stream(std::function<void(const TestWriter&)> stream) {
  return {.content_type = "text/event-stream", .stream = std::move(stream)};
}

// Answers the handshake and hands calls to `on_call`; notes what it was sent.
class McpHttpServer {
 public:
  using Call = std::function<TestResponse(const Json& id, const Json& params)>;

  explicit McpHttpServer(Call on_call = nullptr, std::string session = "S-1")
      : on_call_(std::move(on_call)),
        session_(std::move(session)),
        server_(
            [this](const TestRequest& request) { return Handle(request); }) {}

  std::string Url() const { return server_.Url("/mcp"); }
  bool stopping() const { return server_.stopping(); }

  // Replaces what a GET does; 405 without it.
  std::function<TestResponse(const TestRequest&)> on_get;
  // Sees every POST first; an answer with status 0 means "go on".
  std::function<TestResponse(const TestRequest&)> on_post;

  std::vector<TestRequest> requests() const {
    const std::lock_guard lock(mutex_);
    return requests_;
  }
  // How many messages of this method came.
  int Count(const std::string& method) const {
    int count = 0;
    for (const TestRequest& request : requests()) {
      if (request.body.find("\"" + method + "\"") != std::string::npos) ++count;
    }
    return count;
  }

 private:
  TestResponse Handle(const TestRequest& request) {
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request);
    }
    if (request.method == "GET") {
      return on_get ? on_get(request) : TestResponse{.status = 405};
    }
    if (request.method == "DELETE") return {.status = 200};
    if (on_post) {
      if (TestResponse answer = on_post(request); answer.status != 0) {
        return answer;
      }
    }
    const auto message = ParseJson(request.body, "test");
    if (!message.ok() || !message->contains("id")) return {.status = 202};
    const Json& id = (*message)["id"];
    const std::string method = message->value("method", "");
    if (method == "initialize") {
      TestResponse answer{
          .body = Answer(id, {{"protocolVersion", "2025-06-18"},
                              {"capabilities", {{"tools", Json::object()}}},
                              {"serverInfo", {{"name", "h"}}}})};
      if (!session_.empty()) answer.headers["Mcp-Session-Id"] = session_;
      return answer;
    }
    if (method == "tools/call") return on_call_(id, (*message)["params"]);
    if (method == "ping") return {.body = Answer(id, Json::object())};
    return {.status = 202};
  }

  const Call on_call_;
  const std::string session_;
  mutable std::mutex mutex_;
  std::vector<TestRequest> requests_;
  HttpTestServer server_;  // last: its threads use the others
};

McpServerConfig ConfigFor(const McpHttpServer& server) {
  return {.name = "web",
          .url = server.Url(),
          .headers = {{"Authorization", "Bearer t"}},
          .connect_timeout_ms = 10000,
          .call_timeout_ms = 10000};
}

std::string CallText(McpClient& client, const CallOptions& options = {}) {
  const auto result = client.CallTool("t", nullptr, options);
  return result.ok() ? result->text : result.status().ToString();
}

TEST(HttpTransportTest, SendsTheHeadersOfTheProtocol) {
  McpHttpServer server([](const Json& id, const Json&) {
    return TestResponse{.body = Answer(id, TextResult("hi"))};
  });
  {
    ASSERT_OK_AND_ASSIGN(auto client, McpClient::Connect(ConfigFor(server)));
    EXPECT_EQ(client->server_info().protocol_version, "2025-06-18");
    EXPECT_EQ(CallText(*client), "hi");
  }
  const auto requests = server.requests();
  ASSERT_GE(requests.size(), 4u);
  const TestRequest& first = requests.front();
  EXPECT_EQ(first.method, "POST");
  EXPECT_EQ(first.Header("accept"), "application/json, text/event-stream");
  EXPECT_EQ(first.Header("content-type"), "application/json");
  EXPECT_EQ(first.Header("authorization"), "Bearer t");
  EXPECT_EQ(first.Header("mcp-session-id"), "");
  const TestRequest& last = requests.back();
  EXPECT_EQ(last.method, "DELETE");
  for (size_t i = 1; i < requests.size(); ++i) {
    EXPECT_EQ(requests[i].Header("mcp-session-id"), "S-1");
    EXPECT_EQ(requests[i].Header("mcp-protocol-version"), "2025-06-18");
  }
}

// As servers that know no handshake refuse it.
TEST(HttpTransportTest, RepeatsTheRequestInHeadersWhereThereIsNoHandshake) {
  McpHttpServer server([](const Json& id, const Json&) {
    return TestResponse{.body = Answer(id, TextResult("hi"))};
  });
  server.on_post = [](const TestRequest& request) {
    const Json message = Json::parse(request.body);
    if (message["method"] == "initialize") {
      return TestResponse{
          .status = 400,
          .body = DumpJson(
              {{"jsonrpc", "2.0"},
               {"id", message["id"]},
               {"error",
                {{"code", -32020}, {"message", "Mcp-Method is missing"}}}})};
    }
    if (message["method"] == "tools/list") {
      return TestResponse{.body =
                              Answer(message["id"], Json::parse(R"({"tools": [
            {"name": "sql", "inputSchema": {"type": "object", "properties": {
              "region": {"type": "string", "x-mcp-header": "Region"},
              "n": {"type": "integer", "x-mcp-header": "N"}}}}]})"))};
    }
    if (message["method"] != "server/discover") {
      return TestResponse{.status = 0};
    }
    return TestResponse{
        .body = Answer(message["id"],
                       {{"supportedVersions", {"2026-07-28"}},
                        {"capabilities", {{"tools", Json::object()}}}})};
  };
  ASSERT_OK_AND_ASSIGN(auto client, McpClient::Connect(ConfigFor(server)));
  EXPECT_EQ(client->server_info().protocol_version, "2026-07-28");
  for (const auto& [name, header] :
       {std::pair<const char*, const char*>{"get-sum", "get-sum"},
        {"été", "=?base64?w6l0w6k=?="}}) {
    ASSERT_OK(client->CallTool(name, nullptr));
    const TestRequest last = server.requests().back();
    EXPECT_EQ(last.Header("mcp-protocol-version"), "2026-07-28");
    EXPECT_EQ(last.Header("mcp-method"), "tools/call");
    EXPECT_EQ(last.Header("mcp-name"), header);
  }
  ASSERT_OK(client->ListTools());
  const Json arguments = {{"region", "é"}, {"other", 1}};
  ASSERT_OK(client->CallTool("sql", arguments));
  EXPECT_EQ(server.requests().back().Header("mcp-param-region"),
            "=?base64?w6k=?=");
  EXPECT_EQ(server.requests().back().Header("mcp-param-n"), "");
  ASSERT_OK(client->Request("tools/call",
                            {{"name", "sql"}, {"arguments", {{"n", 3}}}}));
  EXPECT_EQ(server.requests().back().Header("mcp-param-n"), "3");
}

// Over HTTP the subscription is a stream that stays open, and is made again
// when it breaks off.
TEST(HttpTransportTest, ListensForChangesWhereThereIsNoHandshake) {
  std::atomic<int> streams{0};
  McpHttpServer server;
  server.on_post = [&](const TestRequest& request) {
    const Json message = Json::parse(request.body);
    const Json& id = message["id"];
    if (message["method"] == "server/discover") {
      return TestResponse{.body =
                              Answer(id, Json::parse(R"({"supportedVersions":
            ["2026-07-28"], "capabilities": {"tools": {"listChanged": true},
            "prompts": {"listChanged": false}}})"))};
    }
    if (message["method"] != "subscriptions/listen") {
      return TestResponse{
          .status = 400,
          .body = DumpJson({{"jsonrpc", "2.0"},
                            {"id", id},
                            {"error", {{"code", -32601}, {"message", "no"}}}})};
    }
    EXPECT_EQ(message["params"]["notifications"],
              Json::parse(R"({"toolsListChanged":true})"));
    return Stream([&, first = streams++ == 0](const TestWriter& write) {
      write(Event(DumpJson({{"jsonrpc", "2.0"},
                            {"method", "notifications/tools/list_changed"}})));
      // The first breaks off.
      while (!first && !server.stopping() && write(": \n\n")) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    });
  };
  std::atomic<int> news{0};
  McpClientOptions options;
  options.on_notification = [&](const RpcNotification& notification) {
    if (notification.method == "notifications/tools/list_changed") ++news;
  };
  ASSERT_OK_AND_ASSIGN(auto client,
                       McpClient::Connect(ConfigFor(server), options));
  // One of each stream, and one for what came between.
  for (int attempt = 0; news < 3 && attempt < 2000; ++attempt) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(news, 3);
  EXPECT_EQ(streams, 2);
  EXPECT_OK(client->Close());
}

TEST(HttpTransportTest, TakesNoContentForAWordOfThanks) {
  McpHttpServer server([](const Json& id, const Json&) {
    return TestResponse{.body = Answer(id, TextResult("hi"))};
  });
  server.on_post = [](const TestRequest& request) {
    const bool asks = Json::parse(request.body).contains("id");
    return TestResponse{.status = asks ? 0 : 204};
  };
  ASSERT_OK_AND_ASSIGN(auto client, McpClient::Connect(ConfigFor(server)));
  EXPECT_EQ(CallText(*client), "hi");
}

TEST(HttpTransportTest, EndsNoSessionThatItHasNot) {
  McpHttpServer server(nullptr, "");
  { ASSERT_OK(McpClient::Connect(ConfigFor(server))); }
  for (const TestRequest& request : server.requests()) {
    EXPECT_NE(request.method, "DELETE");
  }
}

TEST(HttpTransportTest, ReadsAnAnswerFromAStream) {
  McpHttpServer server([](const Json& id, const Json& params) {
    return Stream([id, params](const TestWriter& write) {
      const Json progress = {
          {"jsonrpc", "2.0"},
          {"method", "notifications/progress"},
          {"params",
           {{"progressToken", params["_meta"]["progressToken"]},
            {"progress", 0.5}}}};
      write(": hello\n\n" + Event(DumpJson(progress)));
      write(Event(Answer(id, TextResult("streamed"))));
    });
  });
  ASSERT_OK_AND_ASSIGN(auto client, McpClient::Connect(ConfigFor(server)));
  double seen = 0;
  EXPECT_EQ(CallText(*client,
                     {.on_progress = [&](double done, double,
                                         const std::string&) { seen = done; }}),
            "streamed");
  EXPECT_EQ(seen, 0.5);
}

TEST(HttpTransportTest, DoesNotWaitForAStreamThatStaysOpen) {
  McpHttpServer server([](const Json& id, const Json&) {
    return Stream([id](const TestWriter& write) {
      write(Event(Answer(id, TextResult("early"))));
      while (write(": still here\n\n")) {
        std::this_thread::sleep_for(milliseconds(20));
      }
    });
  });
  ASSERT_OK_AND_ASSIGN(auto client, McpClient::Connect(ConfigFor(server)));
  const auto start = Clock::Monotonic().Now();
  EXPECT_EQ(CallText(*client), "early");
  EXPECT_LT(Milliseconds(Clock::Monotonic().Now() - start), 5000);
}

TEST(HttpTransportTest, ResumesABrokenStream) {
  std::atomic<int> id_seen{0};
  McpHttpServer server([&](const Json& id, const Json&) {
    id_seen = id.get<int>();
    TestResponse answer = Stream(
        [](const TestWriter& write) { write("retry: 10\nid: e1\ndata:\n\n"); });
    answer.abort_after_stream = true;
    return answer;
  });
  std::atomic<int> resumed{0};
  server.on_get = [&](const TestRequest& request) {
    if (request.Header("last-event-id") != "e1") {
      return TestResponse{.status = 405};
    }
    ++resumed;
    return Stream([&](const TestWriter& write) {
      write(Event(Answer(id_seen.load(), TextResult("resumed")), "e2"));
    });
  };
  ASSERT_OK_AND_ASSIGN(auto client, McpClient::Connect(ConfigFor(server)));
  EXPECT_EQ(CallText(*client), "resumed");
  EXPECT_EQ(resumed, 1);
}

TEST(HttpTransportTest, ReportsAStreamThatBreaksForGood) {
  McpHttpServer server([](const Json&, const Json&) {
    TestResponse answer =
        Stream([](const TestWriter& write) { write("data: {\"js"); });
    answer.abort_after_stream = true;
    return answer;
  });
  ASSERT_OK_AND_ASSIGN(auto client, McpClient::Connect(ConfigFor(server)));
  const auto result = client->CallTool("t", nullptr);
  EXPECT_EQ(result.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(result.status().message(), HasSubstr("MCP server 'web'"));
}

TEST(HttpTransportTest, TimesOutAndTellsTheServer) {
  std::atomic<bool> release{false};
  McpHttpServer server([&](const Json&, const Json&) {
    return Stream([&](const TestWriter& write) {
      while (!release && write(": wait\n\n")) {
        std::this_thread::sleep_for(milliseconds(10));
      }
    });
  });
  ASSERT_OK_AND_ASSIGN(auto client, McpClient::Connect(ConfigFor(server)));
  const auto result = client->CallTool("t", nullptr, {.timeout_ms = 150});
  release = true;
  EXPECT_EQ(result.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(server.Count("notifications/cancelled"), 1);
  EXPECT_OK(client->Ping());
}

TEST(HttpTransportTest, CancelsWhenAsked) {
  McpHttpServer server([&](const Json&, const Json&) {
    return Stream([](const TestWriter& write) {
      while (write(": wait\n\n")) {
        std::this_thread::sleep_for(milliseconds(10));
      }
    });
  });
  ASSERT_OK_AND_ASSIGN(auto client, McpClient::Connect(ConfigFor(server)));
  std::atomic<bool> cancel{false};
  std::thread canceller([&] {
    std::this_thread::sleep_for(milliseconds(50));
    cancel = true;
  });
  const auto result = client->CallTool("t", nullptr, {.cancel = &cancel});
  canceller.join();
  EXPECT_EQ(result.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(server.Count("notifications/cancelled"), 1);
}

TEST(HttpTransportTest, SaysThatTheSessionHasExpired) {
  McpHttpServer server([](const Json&, const Json&) {
    return TestResponse{.status = 404, .body = R"({"error":"gone"})"};
  });
  ASSERT_OK_AND_ASSIGN(auto client, McpClient::Connect(ConfigFor(server)));
  const auto result = client->CallTool("t", nullptr);
  EXPECT_EQ(result.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(result.status().message(), HasSubstr("ended the session"));
  EXPECT_TRUE(client->closed());
}

TEST(HttpTransportTest, GivesARemedyForEachHttpStatus) {
  struct Case {
    int status;
    StatusCode code;
    const char* remedy;
  };
  for (const Case& c :
       {Case{401, StatusCode::kInvalidArgument, "Authorization"},
        Case{404, StatusCode::kNotFound, "no MCP endpoint"},
        Case{405, StatusCode::kNotFound, "no MCP endpoint"},
        Case{307, StatusCode::kInvalidArgument, "redirected"},
        Case{429, StatusCode::kUnavailable, "later"},
        Case{502, StatusCode::kUnavailable, "later"},
        Case{400, StatusCode::kInvalidArgument, "sad"}}) {
    McpHttpServer server;
    server.on_post = [&](const TestRequest&) {
      return TestResponse{
          .status = c.status, .content_type = "text/plain", .body = "sad"};
    };
    const auto client = McpClient::Connect(ConfigFor(server));
    EXPECT_EQ(client.status().code(), c.code) << c.status;
    EXPECT_THAT(client.status().message(), HasSubstr(c.remedy)) << c.status;
    EXPECT_THAT(client.status().message(), HasSubstr(server.Url())) << c.status;
  }
}

TEST(HttpTransportTest, SaysThatAWebPageIsNoMcpEndpoint) {
  McpHttpServer server;
  server.on_post = [](const TestRequest&) {
    return TestResponse{.content_type = "text/html", .body = "<html>"};
  };
  const auto client = McpClient::Connect(ConfigFor(server));
  EXPECT_EQ(client.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(client.status().message(), HasSubstr("text/html"));
}

TEST(HttpTransportTest, SaysThatNobodyListens) {
  std::string url;
  {
    McpHttpServer server;
    url = server.Url();
  }
  const auto client = McpClient::Connect({.name = "web", .url = url});
  EXPECT_EQ(client.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(client.status().message(), HasSubstr(url));
  EXPECT_EQ(
      McpClient::Connect({.name = "web", .url = "htp:/x"}).status().code(),
      StatusCode::kInvalidArgument);
}

TEST(HttpTransportTest, BoundsTheAnswer) {
  McpHttpServer server([](const Json&, const Json&) {
    return Stream([](const TestWriter& write) {
      const std::string piece = "data: " + std::string(10000, 'x') + "\n";
      while (write(piece)) {
      }
    });
  });
  ASSERT_OK_AND_ASSIGN(
      auto client,
      McpClient::Connect(ConfigFor(server), {.max_message_bytes = 100000}));
  EXPECT_EQ(client->CallTool("t", nullptr).status().code(),
            StatusCode::kResourceExhausted);
}

TEST(HttpTransportTest, HearsWhatTheServerSaysOnItsOwn) {
  McpHttpServer server;
  server.on_get = [&](const TestRequest&) {
    return Stream([&](const TestWriter& write) {
      std::this_thread::sleep_for(milliseconds(100));
      write(Event(R"({"jsonrpc":"2.0","method":)"
                  R"("notifications/tools/list_changed"})"));
      while (write(": idle\n\n")) {
        std::this_thread::sleep_for(milliseconds(10));
      }
    });
  };
  std::atomic<int> changes{0};
  ASSERT_OK_AND_ASSIGN(auto client, McpClient::Connect(ConfigFor(server)));
  client->set_tools_changed_callback([&] { ++changes; });
  for (int i = 0; i < 500 && changes == 0; ++i) {
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(changes, 1);
  const auto start = Clock::Monotonic().Now();
  EXPECT_OK(client->Close());
  EXPECT_LT(Milliseconds(Clock::Monotonic().Now() - start), 3000);
}

TEST(HttpTransportTest, FallsForwardToTheRevisionWithoutHandshake) {
  McpHttpServer server;
  server.on_post = [](const TestRequest& request) {
    const auto message = ParseJson(request.body, "test");
    const Json id = (*message)["id"];
    if (request.Header("mcp-protocol-version") != "2026-07-28" ||
        request.Header("mcp-method") != message->value("method", "")) {
      return TestResponse{
          .status = 400,
          .body = DumpJson(
              {{"jsonrpc", "2.0"},
               {"id", id},
               {"error", {{"code", -32020}, {"message", "headers"}}}})};
    }
    if (request.Header("mcp-method") == "tools/call") {
      return TestResponse{
          .body = Answer(id, TextResult(request.Header("mcp-name")))};
    }
    return TestResponse{
        .body = Answer(id, {{"resultType", "complete"},
                            {"supportedVersions", {"2026-07-28"}},
                            {"capabilities", {{"tools", Json::object()}}},
                            {"serverInfo", {{"name", "modern"}}}})};
  };
  ASSERT_OK_AND_ASSIGN(auto client, McpClient::Connect(ConfigFor(server)));
  EXPECT_EQ(client->server_info().name, "modern");
  EXPECT_EQ(CallText(*client), "t");
}

}  // namespace
}  // namespace nexus::mcp
