// Session, as clients of the revision without a handshake have it.
#include <thread>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/gateway/session.h"
#include "nexus/gateway/stateless.h"
#include "nexus/gateway/testing/fake_servers.h"
#include "nexus/gateway/testing/heard.h"
#include "nexus/gateway/testing/wrong_types.h"

namespace nexus::gateway {
namespace {

using mcp::RpcResponse;
using testing::HasSubstr;

constexpr char kRevision[] = "2026-07-28";

class StatelessSessionTest : public testing::Test {
 protected:
  void Start(std::vector<mcp::McpServerConfig> servers,
             Expose expose = Expose::kFind) {
    GatewayOptions options = FakeOptions(std::move(servers));
    options.expose = expose;
    gateway_ = MakeGateway(std::move(options));
    session_ = std::make_unique<Session>(
        gateway_.get(),
        SessionOptions{
            .version = "1", .max_requests = 4, .notify = unasked_.Sink()});
  }

  static Json Meta() {
    return {{kVersionKey, kRevision},
            {kClientInfoKey, {{"name", "test"}, {"version", "1"}}},
            {kCapabilitiesKey, Json::object()}};
  }
  static Json With(Json params, const Json& more_meta = Json::object()) {
    params["_meta"] = Meta();
    params["_meta"].update(more_meta);
    return params;
  }
  // Nothing: no answer is due.
  std::optional<RpcResponse> Send(const mcp::RpcId& id,
                                  const std::string& method, Json params) {
    return session_->Run(
        session_->Admit(
            {.id = id, .method = method, .params = std::move(params)}),
        heard_.Sink());
  }
  RpcResponse Ask(const std::string& method, Json params) {
    auto response = Send(next_id_++, method, std::move(params));
    NEXUS_CHECK(response.has_value());
    return std::move(*response);
  }
  Json Result(const std::string& method, Json params = Json::object()) {
    RpcResponse response = Ask(method, With(std::move(params)));
    EXPECT_FALSE(response.error) << method << ": " << response.error->message;
    return response.result;
  }
  Json Call(const std::string& tool, const Json& arguments = Json::object()) {
    return Result("tools/call", {{"name", tool}, {"arguments", arguments}});
  }
  int64_t Code(const std::string& method, Json params) {
    const RpcResponse answer = Ask(method, std::move(params));
    return answer.error ? answer.error->code : 0;
  }

  Heard heard_;    // with requests
  Heard unasked_;  // and else
  std::unique_ptr<Gateway> gateway_;
  std::unique_ptr<Session> session_;
  int64_t next_id_ = 1;
};

TEST_F(StatelessSessionTest, SaysWhatItIs) {
  Start({FakeServer("notes", "rich")});
  const Json found = Result("server/discover");
  EXPECT_EQ(found["supportedVersions"], Json::array({kRevision}));
  EXPECT_EQ(found["_meta"][kServerInfoKey]["name"], "nexus");
  EXPECT_EQ(found["_meta"][kServerInfoKey]["version"], "1");
  EXPECT_THAT(found["instructions"].get<std::string>(), HasSubstr("find_tool"));
  for (const char* offered :
       {"tools", "prompts", "resources", "completions", "logging"}) {
    EXPECT_TRUE(found["capabilities"].contains(offered)) << offered;
  }
  // The two tools are all there ever is.
  EXPECT_EQ(found["capabilities"]["tools"]["listChanged"], false);
}

TEST_F(StatelessSessionTest, EveryResultSaysItsKindAndServer) {
  Start({FakeServer("notes", "rich"), FakeServer("new", "stateless")});
  const struct {
    const char* method;
    Json params;
    bool is_cacheable;
  } cases[] = {{"server/discover", Json::object(), true},
               {"tools/list", Json::object(), true},
               {"prompts/list", Json::object(), true},
               {"resources/list", Json::object(), true},
               {"resources/templates/list", Json::object(), true},
               {"resources/read", {{"uri", "note://1"}}, true},
               {"tools/call",
                {{"name", "find_tool"}, {"arguments", {{"query", "x"}}}},
                false},
               {"tools/call", {{"name", "notes__everything"}}, false},
               {"tools/call", {{"name", "new__echo"}}, false},
               {"tools/call", {{"name", "call_tool"}}, false},
               {"prompts/get", {{"name", "notes__greet"}}, false},
               {"completion/complete",
                {{"ref", {{"type", "ref/prompt"}, {"name", "notes__greet"}}},
                 {"argument", {{"name", "who"}, {"value", "A"}}}},
                false}};
  for (const auto& item : cases) {
    const Json result = Result(item.method, item.params);
    EXPECT_EQ(result["resultType"], "complete") << item.method;
    EXPECT_EQ(result["_meta"][kServerInfoKey]["name"], "nexus") << item.method;
    EXPECT_EQ(result.contains("ttlMs"), item.is_cacheable) << item.method;
    if (!item.is_cacheable) continue;
    EXPECT_GE(result["ttlMs"], 0) << item.method;
    EXPECT_EQ(result["cacheScope"], "private") << item.method;
  }
  // What its server put there stays.
  EXPECT_EQ(Call("notes__everything")["_meta"]["example/trace"], "abc");
  EXPECT_GT(Result("tools/list")["ttlMs"], 0);
}

TEST_F(StatelessSessionTest, RefusesWhatIsWrong) {
  Start({FakeServer("notes", "rich")});
  const auto without = [](const char* key) {
    Json params = With(Json::object());
    params["_meta"].erase(key);
    return params;
  };
  for (const char* method : {"server/discover", "tools/list", "ping"}) {
    const bool is_ping = std::string(method) == "ping";
    EXPECT_EQ(Code(method, nullptr), is_ping ? 0 : -32602) << method;
    EXPECT_EQ(Code(method, without(kVersionKey)), is_ping ? 0 : -32602);
    EXPECT_EQ(Code(method, without(kCapabilitiesKey)), -32602) << method;
  }
  EXPECT_EQ(Code("tools/list", without(kClientInfoKey)), 0);
  EXPECT_EQ(Code("tools/list", With({}, {{kVersionKey, 7}})), -32602);
  EXPECT_EQ(Code("tools/list", With({}, {{kCapabilitiesKey, "all"}})), -32602);
  EXPECT_EQ(Code("tools/list", With({}, {{kClientInfoKey, "me"}})), -32602);
  EXPECT_EQ(Code("tools/list", With({}, {{kLogLevelKey, "loud"}})), -32602);
  EXPECT_EQ(Code("tools/call", With({{"name", "none"}})), -32602);
  EXPECT_EQ(Code("resources/read", With({{"uri", "note://404"}})), -32602);
  EXPECT_EQ(Code("subscriptions/listen", With({})), -32602);
  EXPECT_EQ(Code("subscriptions/listen",
                 With({{"notifications", {{"toolsListChanged", 1}}}})),
            -32602);
  // Gone with the handshake.
  for (const char* method : {"initialize", "ping", "logging/setLevel",
                             "resources/subscribe", "no/such"}) {
    EXPECT_EQ(Code(method, With({})), -32601) << method;
  }
  EXPECT_EQ(session_->revision(), "");
}

TEST_F(StatelessSessionTest, ListsTheRevisionsThatAreServed) {
  Start({FakeServer("notes", "rich")});
  for (const char* other : {"2025-11-25", "2031-01-01", ""}) {
    const RpcResponse refused =
        Ask("tools/list", With({}, {{kVersionKey, other}}));
    ASSERT_TRUE(refused.error) << other;
    EXPECT_EQ(refused.error->code, -32022);
    EXPECT_EQ(refused.error->data["supported"], Json::array({kRevision}));
    EXPECT_EQ(refused.error->data["requested"], other);
  }
}

// A code of a server behind would say something of the gateway.
TEST_F(StatelessSessionTest, KeepsTheRevisionsOwnCodesToItself) {
  Start({FakeServer("notes", "rich")});
  const RpcResponse refused =
      Ask("tools/call", With({{"name", "notes__refuse"}}));
  ASSERT_TRUE(refused.error);
  EXPECT_EQ(refused.error->code, -32603);
  EXPECT_EQ(refused.error->data["why"], "fake");
  EXPECT_THAT(refused.error->message, HasSubstr("sign in"));
}

TEST_F(StatelessSessionTest, SaysWhichResourceNobodyHas) {
  Start({FakeServer("a", "normal")});
  const RpcResponse missing =
      Ask("resources/read", With({{"uri", "note://1"}}));
  ASSERT_TRUE(missing.error);
  EXPECT_EQ(missing.error->code, -32602);
  EXPECT_EQ(missing.error->data["uri"], "note://1");
}

TEST_F(StatelessSessionTest, FindsAndCalls) {
  Start({FakeServer("notes", "rich"), FakeServer("other", "normal")});
  const Json found = Call("find_tool", {{"query", "delete a note"}});
  EXPECT_EQ(found["structuredContent"]["tools"][0]["name"],
            "notes__delete_note");
  const Json called = Call(
      "call_tool", {{"name", "notes__read_note"}, {"arguments", {{"id", 3}}}});
  EXPECT_EQ(called["content"][0]["text"], R"(read_note {"id":3})");
  EXPECT_EQ(Call("call_tool", {{"name", "none"}})["isError"], true);
}

TEST_F(StatelessSessionTest, NoRequestChangesAnother) {
  Start({FakeServer("notes", "rich")}, Expose::kRouted);
  const Json before = Result("tools/list");
  ASSERT_EQ(before["tools"].size(), 2u);
  Call("find_tool", {{"query", "delete_note"}, {"limit", 1}});
  EXPECT_EQ(Result("tools/list"), before);
  EXPECT_TRUE(heard_.All().empty());
  EXPECT_TRUE(unasked_.All().empty());
}

TEST_F(StatelessSessionTest, StandsBesideAHandshake) {
  Start({FakeServer("notes", "rich")});
  EXPECT_EQ(Code("tools/list", With({})), 0);
  EXPECT_EQ(Code("tools/list", Json::object()), -32602);
  const RpcResponse hello =
      Ask("initialize", {{"protocolVersion", "2025-11-25"}});
  ASSERT_FALSE(hello.error);
  const RpcResponse older = Ask("tools/list", Json::object());
  ASSERT_FALSE(older.error);
  EXPECT_FALSE(older.result.contains("resultType"));
  EXPECT_EQ(Result("tools/list")["resultType"], "complete");
}

TEST_F(StatelessSessionTest, HandsOnOnlyWhatIsTheServersBusiness) {
  Start({FakeServer("notes", "rich")});
  const RpcResponse answer =
      Ask("tools/call",
          With({{"name", "notes__show_params"}},
               {{"progressToken", "mine"}, {"traceparent", "00-1-2-00"}}));
  const Json sent =
      Json::parse(answer.result["content"][0]["text"].get<std::string>());
  EXPECT_EQ(sent["_meta"]["traceparent"], "00-1-2-00");
  for (const char* own : {kVersionKey, kClientInfoKey, kCapabilitiesKey}) {
    EXPECT_FALSE(sent["_meta"].contains(own)) << own;
  }
  EXPECT_NE(sent["_meta"]["progressToken"], "mine");
}

TEST_F(StatelessSessionTest, ProgressCarriesTheClientsToken) {
  Start({FakeServer("a", "normal")});
  Ask("tools/call", With({{"name", "a__progress"}}, {{"progressToken", 7}}));
  const auto progress = heard_.Of("notifications/progress");
  ASSERT_EQ(progress.size(), 3u);
  EXPECT_EQ(progress[2].params["progressToken"], 7);
}

TEST_F(StatelessSessionTest, LogsOnlyForTheRequestThatAsks) {
  Start({FakeServer("a", "rich")});
  const auto log = [&](const char* tool, const Json& meta) {
    Json params = {{"name", tool}};
    if (std::string(tool) == "call_tool")
      params["arguments"] = {{"name", "log"}};
    const size_t before = heard_.Of("notifications/message").size();
    EXPECT_FALSE(Ask("tools/call", With(params, meta)).error);
    return heard_.Of("notifications/message").size() - before;
  };
  for (const char* tool : {"a__log", "call_tool"}) {
    EXPECT_EQ(log(tool, Json::object()), 0u);
    EXPECT_EQ(log(tool, {{kLogLevelKey, "debug"}}), 3u);
    EXPECT_EQ(log(tool, {{kLogLevelKey, "error"}}), 1u);
    EXPECT_EQ(log(tool, {{kLogLevelKey, "alert"}}), 0u);
  }
  EXPECT_EQ(heard_.Of("notifications/message")[0].params["logger"], "a/db");
  EXPECT_TRUE(unasked_.All().empty());
}

TEST_F(StatelessSessionTest, TellsSubscribersWhatTheyAskedFor) {
  Start({FakeServer("a", "rich")}, Expose::kAll);
  const Json all = {{"toolsListChanged", true},
                    {"promptsListChanged", true},
                    {"resourcesListChanged", false},
                    {"resourceSubscriptions", {"note://1"}}};
  EXPECT_FALSE(Send(std::string("all"), "subscriptions/listen",
                    With({{"notifications", all}})));
  EXPECT_FALSE(Send(2, "subscriptions/listen",
                    With({{"notifications", {{"promptsListChanged", true}}}})));
  const auto granted = unasked_.Of("notifications/subscriptions/acknowledged");
  ASSERT_EQ(granted.size(), 2u);
  EXPECT_EQ(granted[0].params["_meta"][kSubscriptionKey], "all");
  EXPECT_EQ(
      granted[0].params["notifications"],
      Json::parse(R"({"toolsListChanged":true,"promptsListChanged":true})"));
  EXPECT_EQ(granted[1].params["_meta"][kSubscriptionKey], 2);
  Call("a__grow");
  EXPECT_TRUE(Eventually([&] {
    return unasked_.Of("notifications/prompts/list_changed").size() == 2 &&
           unasked_.Of("notifications/tools/list_changed").size() == 1;
  }));
  EXPECT_EQ(unasked_.Of("notifications/tools/list_changed")[0]
                .params["_meta"][kSubscriptionKey],
            "all");
  EXPECT_EQ(unasked_.All().size(), 5u);
  EXPECT_EQ(session_->running(), 0u);
}

TEST_F(StatelessSessionTest, GrantsNoNewsOfAListThatIsFixed) {
  Start({FakeServer("a", "rich")}, Expose::kRouted);
  EXPECT_FALSE(Send(1, "subscriptions/listen",
                    With({{"notifications", {{"toolsListChanged", true}}}})));
  EXPECT_EQ(unasked_.All()[0].params["notifications"], Json::object());
}

TEST_F(StatelessSessionTest, EndsASubscriptionByCancelOrWithAnAnswer) {
  Start({FakeServer("a", "rich")}, Expose::kAll);
  const Json params = With({{"notifications", {{"toolsListChanged", true}}}});
  EXPECT_FALSE(Send(1, "subscriptions/listen", params));
  EXPECT_FALSE(Send(2, "subscriptions/listen", params));
  // Its id is taken while it is open.
  EXPECT_EQ(Send(2, "tools/list", With({}))->error->code, -32600);
  session_->Handle(
      {.method = "notifications/cancelled", .params = {{"requestId", 1}}});
  Call("a__grow");
  EXPECT_TRUE(Eventually([&] {
    return !unasked_.Of("notifications/tools/list_changed").empty();
  }));
  EXPECT_EQ(unasked_.Of("notifications/tools/list_changed").size(), 1u);
  const auto ends = session_->EndSubscriptions();
  ASSERT_EQ(ends.size(), 1u);
  EXPECT_EQ(ends[0].id, mcp::RpcId(2));
  EXPECT_EQ(ends[0].result["resultType"], "complete");
  EXPECT_EQ(ends[0].result["_meta"][kSubscriptionKey], 2);
  EXPECT_TRUE(session_->EndSubscriptions().empty());
  EXPECT_FALSE(Send(2, "tools/list", With({}))->error);
}

TEST_F(StatelessSessionTest, BoundsSubscriptionsLikeRequests) {
  Start({FakeServer("a", "rich")});
  const Json params = With({{"notifications", Json::object()}});
  for (int id = 1; id <= 4; ++id) {
    EXPECT_FALSE(Send(id, "subscriptions/listen", params));
  }
  EXPECT_TRUE(Send(5, "subscriptions/listen", params)->error);
  session_->EndSubscriptions();
  EXPECT_FALSE(Send(5, "subscriptions/listen", params));
}

TEST_F(StatelessSessionTest, CancelsTheServersCall) {
  Start({FakeServer("a", "normal")});
  const auto ticket = session_->Admit({.id = std::string("slow"),
                                       .method = "tools/call",
                                       .params = With({{"name", "a__hang"}})});
  std::optional<RpcResponse> response = RpcResponse();
  std::thread call([&] { response = session_->Run(ticket, nullptr); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  session_->Handle(
      {.method = "notifications/cancelled", .params = {{"requestId", "slow"}}});
  call.join();
  EXPECT_FALSE(response.has_value());
  EXPECT_EQ(Call("a__count_cancelled")["content"][0]["text"], "1");
}

TEST_F(StatelessSessionTest, AnswersParamsOfEveryType) {
  Start({FakeServer("new", "stateless"), FakeServer("old", "rich")});
  const std::pair<const char*, const char*> requests[] = {
      {"server/discover", "{}"},
      {"tools/list", R"({"cursor": "c"})"},
      {"tools/call", R"({"name": "new__echo", "arguments": {"text": "x"}})"},
      {"tools/call", R"({"name": "call_tool", "arguments":
           {"name": "log", "server": "old", "arguments": {}}})"},
      {"resources/read", R"({"uri": "other://x"})"},
      {"prompts/get", R"({"name": "old__greet", "arguments": {"who": "Ada"}})"},
      {"completion/complete", R"({"ref": {"type": "ref/prompt",
           "name": "old__greet"}, "argument": {"name": "who", "value": "A"}})"},
      {"subscriptions/listen", R"({"notifications":
           {"toolsListChanged": true, "resourceSubscriptions": ["a"]}})"}};
  for (const auto& [method, params] : requests) {
    const Json root =
        With(Json::parse(params), {{kLogLevelKey, "info"}, {"example/x", 1}});
    ForEachWrongType(root, [&, name = method](const Json& changed) {
      EXPECT_NO_THROW(Send(next_id_++, name, changed))
          << name << " " << changed;
      session_->EndSubscriptions();
    });
  }
  EXPECT_EQ(Call("new__echo", {{"text", "x"}})["content"][0]["text"], "x");
}

}  // namespace
}  // namespace nexus::gateway
