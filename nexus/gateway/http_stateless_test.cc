#include "nexus/gateway/http_stateless.h"

#include <thread>

#include "gmock/gmock.h"

#include "nexus/gateway/stateless.h"
#include "nexus/gateway/testing/http_front_fixture.h"

namespace nexus::gateway {
namespace {

using net::HttpHeaders;
using net::HttpRequest;
using net::HttpResponse;
using testing::HasSubstr;

constexpr char kRevision[] = "2026-07-28";

class HttpStatelessTest : public HttpFrontFixture {
 protected:
  static Json With(Json params, const Json& more_meta = Json::object()) {
    params["_meta"] = {{kVersionKey, kRevision},
                       {kCapabilitiesKey, Json::object()}};
    params["_meta"].update(more_meta);
    return params;
  }
  // With the headers that go with it, but for those in `other`; one that is
  // empty there is left out.
  HttpRequest RequestOf(const std::string& method, const Json& params,
                        const HttpHeaders& other = {}) {
    HttpHeaders headers = {{"Accept", "application/json, text/event-stream"},
                           {"MCP-Protocol-Version", kRevision},
                           {"Mcp-Method", method}};
    for (const char* key : {"name", "uri"}) {
      if (params.is_object() && params.contains(key)) {
        headers["Mcp-Name"] = params[key];
      }
    }
    for (const auto& [name, value] : other) {
      headers[name] = value;
      if (value.empty()) headers.erase(name);
    }
    return {.method = HttpRequest::Method::kPost,
            .headers = std::move(headers),
            .body = DumpJson(Request("r", method, params))};
  }
  HttpResponse Ask(const std::string& method, const Json& params,
                   const HttpHeaders& other = {}) {
    return Send(RequestOf(method, params, other));
  }
  // The status and the error's code; 0: a result.
  std::pair<int, int> Outcome(const std::string& method, const Json& params,
                              const HttpHeaders& other = {}) {
    const HttpResponse response = Ask(method, params, other);
    const Json body = Json::parse(response.body, nullptr, false);
    EXPECT_TRUE(body.is_object()) << response.body;
    EXPECT_EQ(body.value("id", Json()), "r") << response.body;
    return {response.status,
            body.contains("error") ? body["error"]["code"].get<int>() : 0};
  }
  int Cancelled() {
    const Json body = Json::parse(
        Ask("tools/call", With({{"name", "a__count_cancelled"}})).body);
    return std::stoi(body["result"]["content"][0]["text"].get<std::string>());
  }
  // Posts on a thread of its own until `is_enough` says so of an event.
  std::thread Listener(const Json& filter,
                       std::function<bool(const Json&)> is_enough) {
    return std::thread([this, filter, is_enough = std::move(is_enough)] {
      bool is_over = false;
      net::SseParser parser([&](const net::SseEvent& event) {
        is_over = is_over || is_enough(Json::parse(event.data));
        return true;
      });
      HttpRequest request =
          RequestOf("subscriptions/listen", With({{"notifications", filter}}));
      request.on_data = [&](std::string_view bytes) {
        EXPECT_OK(parser.Feed(bytes));
        return !is_over;
      };
      [[maybe_unused]] const auto ended = client_->Send(request);
    });
  }
};

TEST_F(HttpStatelessTest, AnswersWithoutASession) {
  const HttpResponse found = Ask("server/discover", With(Json::object()));
  EXPECT_EQ(found.status, 200);
  EXPECT_EQ(found.headers.find("Content-Type")->second, "application/json");
  EXPECT_FALSE(found.headers.contains("Mcp-Session-Id"));
  const Json result = Json::parse(found.body)["result"];
  EXPECT_EQ(result["supportedVersions"], Json::array({kRevision}));
  EXPECT_EQ(result["capabilities"]["tools"]["listChanged"], true);
  const Json called =
      Json::parse(Ask("tools/call", With(CallOf("a__echo", {{"text", "x"}})),
                      {{"Mcp-Session-Id", "an old one"}})
                      .body);
  EXPECT_EQ(called["id"], "r");
  EXPECT_EQ(called["result"]["content"][0]["text"], "x");
  EXPECT_EQ(called["result"]["resultType"], "complete");
}

TEST_F(HttpStatelessTest, RefusesWhatIsMissingOrWrong) {
  using Pair = std::pair<int, int>;
  EXPECT_EQ(Outcome("tools/list", Json::object()), Pair(400, -32602));
  EXPECT_EQ(Outcome("tools/list", With({}, {{kCapabilitiesKey, 7}})),
            Pair(400, -32602));
  EXPECT_EQ(Outcome("tools/list", With({}, {{kVersionKey, 7}})),
            Pair(400, -32602));
  EXPECT_EQ(Outcome("server/discover", With({}, {{kVersionKey, "v9"}}),
                    {{"MCP-Protocol-Version", "v9"}}),
            Pair(400, -32022));
  EXPECT_EQ(
      Outcome("tools/list", Json::object(), {{"MCP-Protocol-Version", "v9"}}),
      Pair(400, -32022));
  for (const char* gone :
       {"initialize", "ping", "logging/setLevel", "no/such"}) {
    EXPECT_EQ(Outcome(gone, With({})), Pair(404, -32601)) << gone;
  }
  EXPECT_EQ(Outcome("tools/call", With({{"name", "none"}})), Pair(200, -32602));
  EXPECT_EQ(Outcome("subscriptions/listen", With({})), Pair(200, -32602));
  const auto post = [&](const std::string& body) {
    HttpRequest request = RequestOf("tools/list", With({}));
    request.body = body;
    return Send(request).status;
  };
  EXPECT_EQ(post("{"), 400);
  EXPECT_EQ(post("[" + DumpJson(Request(1, "tools/list", With({}))) + "]"),
            400);
  EXPECT_EQ(post(R"({"jsonrpc":"2.0","id":1,"result":{}})"), 400);
  EXPECT_EQ(post(R"({"jsonrpc":"2.0","method":"notifications/x"})"), 202);
  // It has POST only.
  const HttpHeaders headers = {{"MCP-Protocol-Version", kRevision},
                               {"Accept", "text/event-stream"}};
  EXPECT_EQ(Send({.headers = headers}).status, 405);
  EXPECT_EQ(
      Send({.method = HttpRequest::Method::kDelete, .headers = headers}).status,
      405);
}

TEST_F(HttpStatelessTest, HeadersMustSayWhatTheBodySays) {
  const Json call = With(CallOf("a__echo", {{"text", "x"}}));
  const Json read = With({{"uri", "note://1"}});
  const struct {
    const char* method;
    const Json& params;
    HttpHeaders headers;
    bool is_right;
  } cases[] = {
      {"tools/call", call, {}, true},
      {"tools/call", call, {{"Mcp-Name", "=?base64?YV9fZWNobw==?="}}, true},
      {"tools/call", call, {{"Mcp-Name", "=?base64?YV9fZWNobw?="}}, false},
      {"tools/call", call, {{"Mcp-Name", ""}}, false},
      {"tools/call", call, {{"Mcp-Name", "a__hang"}}, false},
      {"tools/call", call, {{"Mcp-Name", "A__ECHO"}}, false},
      {"tools/call", call, {{"Mcp-Method", ""}}, false},
      {"tools/call", call, {{"Mcp-Method", "tools/list"}}, false},
      {"tools/call", call, {{"Mcp-Method", "TOOLS/CALL"}}, false},
      {"tools/call", call, {{"MCP-Protocol-Version", ""}}, false},
      {"tools/call", call, {{"MCP-Protocol-Version", "2025-11-25"}}, false},
      {"resources/read", read, {}, true},
      {"resources/read", read, {{"Mcp-Name", "note://2"}}, false},
      // Of no tool that is marked so.
      {"tools/call", call, {{"Mcp-Param-Text", "y"}}, true}};
  for (const auto& item : cases) {
    const auto [status, code] = Outcome(item.method, item.params, item.headers);
    EXPECT_EQ(status, item.is_right ? 200 : 400) << item.method;
    EXPECT_EQ(code, item.is_right ? 0 : -32020) << item.method;
  }
}

TEST_F(HttpStatelessTest, MarkedParametersStandInHeaders) {
  const auto outcome = [&](const Json& arguments, const HttpHeaders& headers) {
    return Outcome("tools/call", With(CallOf("notes__in_region", arguments)),
                   headers)
        .second;
  };
  EXPECT_EQ(outcome({{"region", "eu"}}, {{"Mcp-Param-Region", "eu"}}), 0);
  EXPECT_EQ(
      outcome({{"region", "eu"}}, {{"mcp-param-region", "=?base64?ZXU=?="}}),
      0);
  EXPECT_EQ(outcome(Json::object(), {}), 0);
  EXPECT_EQ(outcome({{"region", nullptr}}, {}), 0);
  EXPECT_EQ(outcome({{"region", "eu"}}, {}), -32020);
  EXPECT_EQ(outcome({{"region", "eu"}}, {{"Mcp-Param-Region", "us"}}), -32020);
  EXPECT_EQ(outcome(Json::object(), {{"Mcp-Param-Region", "eu"}}), -32020);
}

TEST_F(HttpStatelessTest, SendsProgressAheadOfTheAnswer) {
  const Json params = With(CallOf("a__progress"), {{"progressToken", 7}});
  const HttpResponse stream = Ask("tools/call", params);
  EXPECT_EQ(stream.headers.find("Content-Type")->second, "text/event-stream");
  EXPECT_EQ(stream.headers.find("X-Accel-Buffering")->second, "no");
  const auto events = Events(stream.body);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0]["params"]["progressToken"], 7);
  EXPECT_EQ(events[3]["id"], "r");
  EXPECT_EQ(events[3]["result"]["resultType"], "complete");
  // Whoever takes no stream gets the answer alone.
  const Json alone = Json::parse(
      Ask("tools/call",
          With(CallOf("a__echo", {{"text", "x"}}), {{"progressToken", 7}}),
          {{"Accept", "application/json"}})
          .body);
  EXPECT_EQ(alone["result"]["content"][0]["text"], "x");
}

TEST_F(HttpStatelessTest, WorksWithoutAThreadToSpare) {
  Start({.max_requests = 0}, "");
  EXPECT_EQ(Outcome("tools/list", With({})).first, 200);
  EXPECT_EQ(Events(Ask("tools/call",
                       With(CallOf("a__progress"), {{"progressToken", 7}}))
                       .body)
                .size(),
            4u);
}

TEST_F(HttpStatelessTest, HangingUpCancels) {
  for (const char* accept :
       {"application/json", "application/json, text/event-stream"}) {
    const int before = Cancelled();
    HttpRequest request =
        RequestOf("tools/call", With(CallOf("a__hang")), {{"Accept", accept}});
    request.timeout_ms = 300;
    EXPECT_FALSE(client_->Send(request).ok());
    EXPECT_TRUE(Eventually([&] { return Cancelled() > before; })) << accept;
  }
  // In the stream, too.
  const int before = Cancelled();
  HttpRequest request = RequestOf("tools/call", With(CallOf("a__hang")));
  request.timeout_ms = 1500;
  EXPECT_FALSE(client_->Send(request).ok());
  EXPECT_TRUE(Eventually([&] { return Cancelled() > before; }));
}

// The HTTP server drops an answer whose head it can't write, stream and all.
TEST_F(HttpStatelessTest, AnAnswerThatIsDroppedIsCancelled) {
  const int before = Cancelled();
  const HttpRequest asked = RequestOf("tools/call", With(CallOf("a__hang")));
  net::ServerRequest request;
  request.method = "POST";
  request.path = kHttpPath;
  request.headers = asked.headers;
  request.headers["Content-Type"] = "application/json";
  request.body = asked.body;
  request.is_client_gone = [] { return false; };
  {
    const net::ServerResponse dropped = front_->Handle(request);
    EXPECT_TRUE(dropped.stream);
    EXPECT_EQ(Cancelled(), before);
  }
  EXPECT_TRUE(Eventually([&] { return Cancelled() > before; }));
}

TEST_F(HttpStatelessTest, TellsNewsToWhoeverListens) {
  std::atomic<bool> is_granted{false};
  Json granted;
  Json news;
  std::thread listener =
      Listener({{"toolsListChanged", true}}, [&](const Json& event) {
        if (is_granted) {
          news = event;
          return true;
        }
        granted = event;
        is_granted = true;
        return false;
      });
  EXPECT_TRUE(Eventually([&] { return is_granted.load(); }));
  Ask("tools/call", With(CallOf("notes__grow")));
  listener.join();
  EXPECT_EQ(granted["method"], "notifications/subscriptions/acknowledged");
  EXPECT_EQ(granted["params"]["_meta"][kSubscriptionKey], "r");
  EXPECT_EQ(news["method"], "notifications/tools/list_changed");
  EXPECT_EQ(news["params"]["_meta"][kSubscriptionKey], "r");
}

TEST_F(HttpStatelessTest, BoundsSubscriptionsAndEndsThemInOrder) {
  Start({.max_sessions = 1}, "");
  std::atomic<int> heard{0};
  Json last;
  std::thread listener = Listener(Json::object(), [&](const Json& event) {
    last = event;
    ++heard;
    return false;
  });
  EXPECT_TRUE(Eventually([&] { return heard == 1; }));
  EXPECT_EQ(
      Outcome("subscriptions/listen", With({{"notifications", Json::object()}}))
          .first,
      503);
  front_->SetDraining();
  EXPECT_EQ(server_->Stop(10000), 0u);
  listener.join();
  EXPECT_EQ(last["id"], "r");
  EXPECT_EQ(last["result"]["resultType"], "complete");
}

TEST_F(HttpStatelessTest, LogsOnTheRequestsOwnStream) {
  const auto logs = [&](const Json& meta) {
    const HttpResponse response =
        Ask("tools/call", With(CallOf("notes__log"), meta));
    return response.body.find("notifications/message") != std::string::npos;
  };
  EXPECT_FALSE(logs(Json::object()));
  EXPECT_TRUE(logs({{kLogLevelKey, "error"}}));
}

TEST_F(HttpStatelessTest, StandsBesideSessions) {
  const std::string session = Initialize();
  EXPECT_EQ(Outcome("tools/list", With({})).first, 200);
  const auto events = Events(Post(Request(1, "tools/list"), session).body);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_FALSE(events[0]["result"].contains("resultType"));
}

TEST_F(HttpStatelessTest, KeepsOtherSitesAndStrangersOut) {
  EXPECT_EQ(
      Ask("tools/list", With({}), {{"Origin", "http://evil.example"}}).status,
      403);
  Start({}, "secret");
  EXPECT_EQ(Ask("tools/list", With({})).status, 401);
  EXPECT_EQ(
      Ask("tools/list", With({}), {{"Authorization", "Bearer secret"}}).status,
      200);
}

}  // namespace
}  // namespace nexus::gateway
