#include "nexus/gateway/http_front.h"

#include <thread>

#include "gmock/gmock.h"

#include "nexus/gateway/testing/http_front_fixture.h"

namespace nexus::gateway {
namespace {

using net::HttpHeaders;
using net::HttpRequest;
using net::HttpResponse;
using std::chrono::milliseconds;

using HttpFrontTest = HttpFrontFixture;

TEST_F(HttpFrontTest, ServesASession) {
  const std::string session = Initialize();
  EXPECT_EQ(session.size(), 32u);
  const HttpResponse listed = Post(Request(1, "tools/list"), session);
  EXPECT_EQ(listed.headers.find("Content-Type")->second, "text/event-stream");
  const auto events = Events(listed.body);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_GT(events[0]["result"]["tools"].size(), 20u);
  const HttpResponse ping = Post(Request(2, "ping"), session);
  EXPECT_EQ(Json::parse(ping.body)["id"], 2);
  EXPECT_EQ(Send({.method = HttpRequest::Method::kDelete,
                  .headers = {{"Mcp-Session-Id", session}}})
                .status,
            200);
  EXPECT_EQ(Post(Request(3, "ping"), session).status, 404);
}

TEST_F(HttpFrontTest, SendsProgressAheadOfTheAnswer) {
  Json params = CallOf("a__progress");
  params["_meta"] = {{"progressToken", 7}};
  const auto events =
      Events(Post(Request("p", "tools/call", params), Initialize()).body);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0]["params"]["progressToken"], 7);
  EXPECT_EQ(events[3]["id"], "p");
}

TEST_F(HttpFrontTest, AnswersPlainJsonToThoseWhoTakeNoStream) {
  const std::string session = Initialize();
  const HttpResponse answer =
      Post(Request(1, "tools/call", CallOf("a__echo", {{"text", "x"}})),
           session, {{"Accept", "application/json"}});
  EXPECT_EQ(Json::parse(answer.body)["result"]["content"][0]["text"], "x");
}

// The HTTP server drops an answer whose head it can't write, stream and all.
TEST_F(HttpFrontTest, ARequestIsRunThoughItsAnswerIsDropped) {
  for (const size_t threads : {size_t{0}, size_t{8}}) {
    Start({.max_requests = threads}, "");
    const std::string session = Initialize();
    const Json call = Request(1, "tools/call", CallOf("a__echo"));
    net::ServerRequest request;
    request.method = "POST";
    request.path = kHttpPath;
    request.headers = {{"Content-Type", "application/json"},
                       {"Accept", "application/json, text/event-stream"},
                       {"Mcp-Session-Id", session}};
    request.body = DumpJson(call);
    request.is_client_gone = [] { return true; };
    EXPECT_TRUE(front_->Handle(request).stream);
    // Its id is free again once it has ended.
    EXPECT_TRUE(Eventually([&] {
      const auto events = Events(Post(call, session).body);
      return events.size() == 1 && events[0].contains("result");
    })) << threads
        << " threads";
  }
}

TEST_F(HttpFrontTest, RefusesWhatIsWrong) {
  const std::string session = Initialize();
  EXPECT_EQ(Post(Request(1, "ping")).status, 400);
  EXPECT_EQ(Post(Request(1, "ping"), "nobody").status, 404);
  EXPECT_EQ(Post(Request(1, "ping"), session,
                 {{"MCP-Protocol-Version", "1999-01-01"}})
                .status,
            400);
  EXPECT_EQ(Post(Request(1, "ping"), session, {{"Accept", "text/html"}}).status,
            406);
  EXPECT_EQ(Post(Json::array({Request(1, "ping")}), session).status, 400);
  const HttpRequest::Method post = HttpRequest::Method::kPost;
  const HttpHeaders headers = {{"Mcp-Session-Id", session}};
  const HttpResponse broken =
      Send({.method = post, .headers = headers, .body = "{"});
  EXPECT_EQ(broken.status, 400);
  EXPECT_EQ(Json::parse(broken.body)["error"]["code"], -32700);
  EXPECT_EQ(Send({.method = post,
                  .headers = headers,
                  .body = "{}",
                  .content_type = "text/plain"})
                .status,
            415);
  EXPECT_EQ(Send({.path = "/other", .headers = headers}).status, 404);
  EXPECT_EQ(Send({.headers = {{"Mcp-Session-Id", session},
                              {"Accept", "application/json"}}})
                .status,
            406);
  // A handshake that fails leaves no session behind.
  const HttpResponse failed = Post(Request(1, "initialize"));
  EXPECT_EQ(Json::parse(failed.body)["error"]["code"], -32602);
  EXPECT_FALSE(failed.headers.contains("Mcp-Session-Id"));
}

TEST_F(HttpFrontTest, KeepsOtherSitesAndStrangersOut) {
  EXPECT_EQ(
      Post(Request(0, "initialize"), "", {{"Origin", "http://evil.example"}})
          .status,
      403);
  Start({}, "secret");
  const Json hello =
      Request(0, "initialize", {{"protocolVersion", "2025-11-25"}});
  const HttpResponse stranger = Post(hello);
  EXPECT_EQ(stranger.status, 401);
  EXPECT_EQ(Json::parse(stranger.body)["error"]["code"], -32000);
  EXPECT_EQ(Post(hello, "", {{"Authorization", "Bearer wrong"}}).status, 401);
  EXPECT_EQ(Post(hello, "", {{"Authorization", "Bearer secret"}}).status, 200);
}

TEST_F(HttpFrontTest, TellsNewsOnTheGetStream) {
  const std::string session = Initialize();
  std::atomic<bool> is_open{false};
  std::atomic<bool> is_heard{false};
  std::thread listener([&] {
    net::SseParser parser([&](const net::SseEvent& event) {
      if (Json::parse(event.data)["method"] ==
          "notifications/tools/list_changed") {
        is_heard = true;
      }
      return true;
    });
    [[maybe_unused]] const auto ended =
        client_->Send({.headers = {{"Mcp-Session-Id", session},
                                   {"Accept", "text/event-stream"}},
                       .on_data = [&](std::string_view bytes) {
                         is_open = true;
                         EXPECT_OK(parser.Feed(bytes));
                         return !is_heard;
                       }});
  });
  EXPECT_TRUE(Eventually([&] { return is_open.load(); }));
  Post(Request(1, "tools/call", CallOf("notes__grow")), session);
  EXPECT_TRUE(Eventually([&] { return is_heard.load(); }));
  listener.join();
}

TEST_F(HttpFrontTest, CancelsByNotificationAndByDelete) {
  const std::string session = Initialize();
  for (const bool by_delete : {false, true}) {
    HttpResponse cut;
    std::thread call([&] {
      cut = Post(Request("slow", "tools/call", CallOf("a__hang")), session);
    });
    // Until the call has arrived.
    std::this_thread::sleep_for(milliseconds(100));
    if (by_delete) {
      Send({.method = HttpRequest::Method::kDelete,
            .headers = {{"Mcp-Session-Id", session}}});
    } else {
      Post({{"jsonrpc", "2.0"},
            {"method", "notifications/cancelled"},
            {"params", {{"requestId", "slow"}}}},
           session);
    }
    call.join();
    EXPECT_TRUE(Events(cut.body).empty()) << cut.body;
  }
}

TEST_F(HttpFrontTest, ForgetsTheSessionThatWasIdleLongest) {
  Start({.max_sessions = 2}, "");
  const std::string first = Initialize();
  const std::string second = Initialize();
  Post(Request(1, "ping"), first);
  const std::string third = Initialize();
  EXPECT_EQ(Post(Request(2, "ping"), first).status, 200);
  EXPECT_EQ(Post(Request(2, "ping"), second).status, 404);
  EXPECT_EQ(Post(Request(2, "ping"), third).status, 200);
}

TEST_F(HttpFrontTest, StopsWithAStreamOpen) {
  const std::string session = Initialize();
  std::atomic<bool> is_open{false};
  std::thread listener([&] {
    [[maybe_unused]] const auto ended =
        client_->Send({.headers = {{"Mcp-Session-Id", session},
                                   {"Accept", "text/event-stream"}},
                       .on_data = [&](std::string_view) {
                         is_open = true;
                         return true;
                       }});
  });
  EXPECT_TRUE(Eventually([&] { return is_open.load(); }));
  front_->SetDraining();
  EXPECT_EQ(server_->Stop(10000), 0u);
  listener.join();
}

}  // namespace
}  // namespace nexus::gateway
