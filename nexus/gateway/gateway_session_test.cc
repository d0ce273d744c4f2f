#include <set>
#include <thread>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/gateway/session.h"
#include "nexus/gateway/testing/fake_servers.h"
#include "nexus/gateway/testing/heard.h"
#include "nexus/gateway/testing/wrong_types.h"
#include "nexus/mcp/json_fields.h"

namespace nexus::gateway {
namespace {

using mcp::RpcResponse;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class SessionTest : public testing::Test {
 protected:
  void Start(GatewayOptions options) {
    gateway_ = MakeGateway(std::move(options));
    session_ = NewSession();
  }
  void Start(std::vector<mcp::McpServerConfig> servers,
             Expose expose = Expose::kFind) {
    GatewayOptions options = FakeOptions(std::move(servers));
    options.expose = expose;
    Start(std::move(options));
    Initialize();
  }
  std::unique_ptr<Session> NewSession() {
    return std::make_unique<Session>(
        gateway_.get(),
        SessionOptions{.version = "1", .notify = heard_.Sink()});
  }
  void Initialize() {
    ASSERT_FALSE(Ask("initialize", {{"protocolVersion", "2025-11-25"}}).error);
  }

  RpcResponse Ask(const std::string& method, Json params = nullptr) {
    const auto ticket = session_->Admit(
        {.id = next_id_++, .method = method, .params = std::move(params)});
    auto response = session_->Run(ticket, heard_.Sink());
    NEXUS_CHECK(response.has_value());
    return std::move(*response);
  }
  // The result of tools/call.
  Json Call(const std::string& name, Json arguments, Json meta = nullptr) {
    Json params = {{"name", name}, {"arguments", std::move(arguments)}};
    if (!meta.is_null()) params["_meta"] = std::move(meta);
    RpcResponse response = Ask("tools/call", std::move(params));
    EXPECT_FALSE(response.error) << response.error->message;
    return response.result;
  }
  std::string ErrorText(const std::string& name, Json arguments) {
    const Json result = Call(name, std::move(arguments));
    EXPECT_EQ(result.value("isError", false), true) << result;
    return result["content"][0]["text"];
  }
  std::vector<std::string> Listed() {
    std::vector<std::string> names;
    const RpcResponse response = Ask("tools/list");
    for (const Json& tool : response.result["tools"]) {
      names.push_back(tool["name"]);
    }
    return names;
  }

  Heard heard_;
  std::unique_ptr<Gateway> gateway_;
  std::unique_ptr<Session> session_;
  int64_t next_id_ = 1;
};

TEST_F(SessionTest, AgreesOnARevision) {
  Start(FakeOptions({FakeServer("notes", "rich")}));
  for (const auto& [asked, agreed] :
       {std::pair<std::string, std::string>{"2025-11-25", "2025-11-25"},
        {"2025-06-18", "2025-06-18"},
        {"2025-03-26", "2025-03-26"},
        {"2024-11-05", "2025-11-25"},
        {"2031-01-01", "2025-11-25"}}) {
    session_ = NewSession();
    const RpcResponse answer = Ask("initialize", {{"protocolVersion", asked}});
    ASSERT_FALSE(answer.error) << asked;
    EXPECT_EQ(answer.result["protocolVersion"], agreed);
    EXPECT_EQ(answer.result["serverInfo"]["name"], "nexus");
    EXPECT_TRUE(answer.result["capabilities"].contains("tools"));
  }
}

TEST_F(SessionTest, RefusesWhatIsWrong) {
  Start(FakeOptions({FakeServer("notes", "rich")}));
  const auto code = [&](const std::string& method, Json params) {
    const RpcResponse answer = Ask(method, std::move(params));
    return answer.error ? answer.error->code : 0;
  };
  EXPECT_EQ(code("tools/list", nullptr), -32602);
  EXPECT_EQ(code("ping", nullptr), 0);
  EXPECT_EQ(code("initialize", Json::object()), -32602);
  EXPECT_EQ(code("initialize", {{"protocolVersion", 7}}), -32602);
  EXPECT_EQ(code("initialize", Json::array()), -32602);
  Initialize();
  EXPECT_EQ(code("initialize", {{"protocolVersion", "2025-11-25"}}), -32600);
  EXPECT_EQ(code("tools/call", nullptr), -32602);
  EXPECT_EQ(code("tools/call", {{"name", 7}}), -32602);
  EXPECT_EQ(code("tools/call", {{"name", "x"}}), -32602);
  EXPECT_EQ(code("tools/call", {{"name", "find_tool"}, {"arguments", "x"}}),
            -32602);
  EXPECT_EQ(code("tools/list", {{"cursor", "x"}}), -32602);
  EXPECT_EQ(code("logging/setLevel", {{"level", "loud"}}), -32602);
  EXPECT_EQ(code("resources/read", Json::object()), -32602);
  EXPECT_EQ(code("prompts/get", {{"name", "none"}}), -32602);
  EXPECT_EQ(code("completion/complete", Json::object()), -32602);
  EXPECT_EQ(code("sampling/createMessage", nullptr), -32601);
  EXPECT_EQ(code("tools/lists", nullptr), -32601);
}

// The servers of both kinds: into what goes to the stateless one more is
// written.
TEST_F(SessionTest, AnswersParamsOfEveryType) {
  Start({FakeServer("new", "stateless"), FakeServer("old", "rich")});
  const std::pair<const char*, const char*> requests[] = {
      {"initialize", R"({"protocolVersion": "2025-11-25"})"},
      {"ping", "{}"},
      {"tools/list", R"({"cursor": "c"})"},
      {"tools/call", R"({"name": "new__echo", "arguments": {"text": "x"}})"},
      {"tools/call", R"({"name": "old__read_note", "arguments": {"id": 1}})"},
      {"tools/call", R"({"name": "find_tool", "arguments":
           {"query": "x", "limit": 1, "server": "old"}})"},
      {"tools/call", R"({"name": "call_tool", "arguments":
           {"name": "echo", "server": "new", "arguments": {"text": "x"}}})"},
      {"logging/setLevel", R"({"level": "error"})"},
      {"resources/list", R"({"cursor": "c"})"},
      {"resources/read", R"({"uri": "other://x"})"},
      {"prompts/list", R"({"cursor": "c"})"},
      {"prompts/get", R"({"name": "old__greet", "arguments": {"who": "Ada"}})"},
      {"completion/complete", R"({"ref": {"type": "ref/prompt",
           "name": "old__greet"}, "argument": {"name": "who", "value": "A"}})"},
      {"completion/complete", R"({"ref": {"type": "ref/resource",
           "uri": "note://{id}"}, "argument": {"name": "id", "value": "1"}})"}};
  for (const auto& [method, params] : requests) {
    Json root = Json::parse(params);
    root["_meta"] = {{"progressToken", 1}, {"example/x", 1}};
    ForEachWrongType(root, [&, name = method](const Json& changed) {
      EXPECT_NO_THROW(Ask(name, changed)) << name << " " << changed;
    });
  }
  for (const char* wrong : {"true", "7", "\"x\"", "[]"}) {
    const RpcResponse answer = Ask(
        "resources/read", {{"uri", "note://1"}, {"_meta", Json::parse(wrong)}});
    ASSERT_TRUE(answer.error) << wrong;
    EXPECT_EQ(answer.error->code, -32602);
    EXPECT_THAT(answer.error->message, HasSubstr("_meta"));
  }
  EXPECT_FALSE(
      Ask("resources/read", {{"uri", "note://1"}, {"_meta", nullptr}}).error);
  EXPECT_EQ(Call("new__echo", {{"text", "x"}})["content"][0]["text"], "x");
}

TEST_F(SessionTest, FindsAToolWithItsSchema) {
  Start({FakeServer("notes", "rich"), FakeServer("other", "normal")});
  EXPECT_THAT(Listed(), ElementsAre("find_tool", "call_tool"));
  const Json result = Call("find_tool", {{"query", "delete a note"}});
  const Json& found = result["structuredContent"];
  EXPECT_EQ(Json::parse(result["content"][0]["text"].get<std::string>()),
            found);
  EXPECT_THAT((std::set<std::string>{"route", "ask_back", "abstain"}),
              Contains(found["decision"].get<std::string>()));
  EXPECT_FALSE(found["reason"].get<std::string>().empty());
  const Json& first = found["tools"][0];
  EXPECT_EQ(first["name"], "notes__delete_note");
  EXPECT_EQ(first["server"], "notes");
  EXPECT_EQ(first["destructive"], true);
  EXPECT_EQ(first["inputSchema"]["required"], Json::array({"id"}));
  EXPECT_GT(first["score"], 0);
}

TEST_F(SessionTest, FindToolKeepsToLimitAndServer) {
  Start({FakeServer("notes", "rich"), FakeServer("other", "normal")});
  const Json some = Call("find_tool", {{"query", "does a note"}, {"limit", 2}});
  EXPECT_EQ(some["structuredContent"]["tools"].size(), 2u);
  const Json scoped = Call(
      "find_tool", {{"query", "note"}, {"server", "other"}, {"limit", 50}});
  for (const Json& tool : scoped["structuredContent"]["tools"]) {
    EXPECT_EQ(tool["server"], "other");
  }
  EXPECT_THAT(ErrorText("find_tool", {{"query", "x"}, {"server", "none"}}),
              AllOf(HasSubstr("'none'"), HasSubstr("notes")));
  EXPECT_THAT(ErrorText("find_tool", {{"query", 7}}), HasSubstr("query"));
  EXPECT_THAT(ErrorText("find_tool", {{"query", "x"}, {"limit", 0}}),
              HasSubstr("limit"));
  EXPECT_THAT(ErrorText("find_tool", Json::object()), HasSubstr("query"));
}

TEST_F(SessionTest, PassesEveryKindOfContentThroughWhole) {
  Start({FakeServer("notes", "rich")});
  const Json result = Call("call_tool", {{"name", "notes__everything"}});
  EXPECT_EQ(result, Json::parse(R"({
    "content": [
      {"type": "text", "text": "a", "annotations": {"priority": 0.5}},
      {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="},
      {"type": "audio", "mimeType": "audio/wav", "data": "UklGRg=="},
      {"type": "resource_link", "uri": "note://1", "name": "one"},
      {"type": "resource", "resource": {"uri": "note://2", "text": "two"}}],
    "structuredContent": {"n": 1, "list": [1, 2.5, null]},
    "isError": false,
    "_meta": {"example/trace": "abc"}})"));
}

TEST_F(SessionTest, CallsByEveryWayOfNamingATool) {
  Start({FakeServer("notes", "rich")});
  for (const Json& named :
       {Json{{"name", "notes__read_note"}}, Json{{"name", "read_note"}},
        Json{{"name", "read_note"}, {"server", "notes"}},
        Json{{"name", "notes/read_note"}}}) {
    Json arguments = named;
    arguments["arguments"] = {{"id", 3}};
    EXPECT_EQ(Call("call_tool", arguments)["content"][0]["text"],
              R"(read_note {"id":3})");
  }
  // As models write it.
  EXPECT_EQ(
      Call("call_tool", {{"name", "read_note"},
                         {"arguments", R"({"id": 4})"}})["content"][0]["text"],
      R"(read_note {"id":4})");
  EXPECT_EQ(Call("notes__read_note", {{"id", 5}})["content"][0]["text"],
            R"(read_note {"id":5})");
}

TEST_F(SessionTest, ChecksArgumentsBeforeItCalls) {
  Start({FakeServer("notes", "rich")});
  for (const bool direct : {false, true}) {
    const std::string text =
        direct ? ErrorText("notes__read_note", {{"id", "three"}})
               : ErrorText("call_tool", {{"name", "read_note"},
                                         {"arguments", {{"id", "three"}}}});
    EXPECT_THAT(
        text, AllOf(HasSubstr("id"), HasSubstr("integer"),
                    HasSubstr("nothing was called"), HasSubstr("inputSchema")));
  }
  EXPECT_THAT(ErrorText("call_tool", {{"name", "read_note"}}), HasSubstr("id"));
  EXPECT_THAT(ErrorText("call_tool", {{"arguments", Json::object()}}),
              HasSubstr("name"));
  EXPECT_THAT(ErrorText("call_tool", {{"name", "none"}}),
              HasSubstr("no tool 'none'"));
  EXPECT_THAT(ErrorText("call_tool", {{"name", "x"}, {"server", "none"}}),
              HasSubstr("no server 'none'"));
}

TEST_F(SessionTest, ARefusalStaysOneForADirectCall) {
  Start({FakeServer("notes", "rich")});
  const RpcResponse direct = Ask("tools/call", {{"name", "notes__refuse"}});
  ASSERT_TRUE(direct.error);
  EXPECT_EQ(direct.error->code, -32042);
  EXPECT_EQ(direct.error->data["why"], "fake");
  EXPECT_THAT(ErrorText("call_tool", {{"name", "refuse"}}),
              AllOf(HasSubstr("-32042"), HasSubstr("sign in")));
}

TEST_F(SessionTest, HandsOnMetaButNotTheToken) {
  Start({FakeServer("notes", "rich")});
  const Json result = Call("notes__show_params", Json::object(),
                           {{"progressToken", "mine"}, {"example/x", 1}});
  const Json sent =
      Json::parse(result["content"][0]["text"].get<std::string>());
  EXPECT_EQ(sent["name"], "show_params");
  EXPECT_EQ(sent["_meta"]["example/x"], 1);
  EXPECT_NE(sent["_meta"]["progressToken"], "mine");
}

TEST_F(SessionTest, ProgressCarriesTheClientsToken) {
  Start({FakeServer("a", "normal")});
  Call("a__progress", Json::object(), {{"progressToken", "mine"}});
  const auto progress = heard_.Of("notifications/progress");
  ASSERT_EQ(progress.size(), 3u);
  EXPECT_EQ(DumpJson(progress[2].params),
            R"({"progressToken":"mine","progress":3,"total":3,)"
            R"("message":"step"})");
}

TEST_F(SessionTest, CancelsTheServersCall) {
  Start({FakeServer("a", "normal")});
  const auto ticket = session_->Admit(
      {.id = std::string("slow"),
       .method = "tools/call",
       .params = {{"name", "call_tool"}, {"arguments", {{"name", "hang"}}}}});
  std::optional<RpcResponse> response = RpcResponse();
  std::thread call([&] { response = session_->Run(ticket, nullptr); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  session_->Handle(
      {.method = "notifications/cancelled", .params = {{"requestId", "slow"}}});
  call.join();
  EXPECT_FALSE(response.has_value());
  EXPECT_EQ(Call("a__count_cancelled", Json::object())["content"][0]["text"],
            "1");
  // Of nobody, and of nothing.
  session_->Handle(
      {.method = "notifications/cancelled", .params = {{"requestId", 77}}});
  session_->Handle({.method = "notifications/cancelled", .params = 7});
}

TEST_F(SessionTest, AServerThatHangsOrDiesIsAToolResult) {
  mcp::McpServerConfig hanging = FakeServer("slow", "normal");
  hanging.call_timeout_ms = 200;
  Start({FakeServer("a", "normal"), hanging});
  EXPECT_THAT(ErrorText("call_tool", {{"name", "hang"}, {"server", "slow"}}),
              AllOf(HasSubstr("'slow'"), HasSubstr("200 ms")));
  EXPECT_THAT(ErrorText("a__die", Json::object()), HasSubstr("out of cheese"));
  EXPECT_THAT(ErrorText("slow__bad_result", Json::object()),
              HasSubstr("expected an object"));
  // The other goes on, and the dead one comes back.
  EXPECT_EQ(Call("slow__echo", {{"text", "x"}})["content"][0]["text"], "x");
  EXPECT_TRUE(Eventually([&] {
    return !Call("a__echo", {{"text", "x"}}).value("isError", false);
  }));
}

TEST_F(SessionTest, ShowsAllToolsUnderTheirNames) {
  Start({FakeServer("a", "rich"), FakeServer("b", "rich")}, Expose::kAll);
  const Json tools = Ask("tools/list").result["tools"];
  ASSERT_EQ(tools.size(), 16u);
  const Json& first = tools[0];
  EXPECT_EQ(first["name"], "a__read_note");
  EXPECT_EQ(first["title"], "Read");
  EXPECT_EQ(first["annotations"]["readOnlyHint"], true);
  EXPECT_EQ(first["outputSchema"]["type"], "object");
  EXPECT_EQ(first["_meta"]["example/x"], 1);
  EXPECT_EQ(tools[8]["name"], "b__read_note");
  const RpcResponse own = Ask("tools/call", {{"name", "find_tool"}});
  ASSERT_TRUE(own.error);
  EXPECT_EQ(own.error->code, -32602);
}

TEST_F(SessionTest, AGrowingListIsIndexedAndTold) {
  Start({FakeServer("a", "rich")}, Expose::kAll);
  Call("a__grow", Json::object());
  EXPECT_TRUE(Eventually([&] {
    return !heard_.Of("notifications/tools/list_changed").empty() &&
           !heard_.Of("notifications/prompts/list_changed").empty();
  }));
  EXPECT_THAT(Listed(), Contains("a__grown"));
  EXPECT_TRUE(heard_.Of("notifications/resources/list_changed").empty());
}

TEST_F(SessionTest, FindsAToolThatCameLater) {
  Start({FakeServer("a", "rich")});
  Call("a__grow", Json::object());
  EXPECT_TRUE(Eventually([&] {
    const Json found = Call("find_tool", {{"query", "juggle flamingos"}});
    const Json& tools = found["structuredContent"]["tools"];
    return !tools.empty() && tools[0]["name"] == "a__grown";
  }));
  // What this client sees hasn't changed.
  EXPECT_TRUE(heard_.Of("notifications/tools/list_changed").empty());
}

TEST_F(SessionTest, RoutedShowsWhatThisConversationFound) {
  Start({FakeServer("a", "rich")}, Expose::kRouted);
  EXPECT_THAT(Listed(), ElementsAre("find_tool", "call_tool"));
  Call("find_tool", {{"query", "delete_note"}, {"limit", 1}});
  EXPECT_EQ(heard_.Of("notifications/tools/list_changed").size(), 1u);
  EXPECT_THAT(Listed(),
              ElementsAre("find_tool", "call_tool", "a__delete_note"));
  Call("find_tool", {{"query", "delete_note"}, {"limit", 1}});
  EXPECT_EQ(heard_.Of("notifications/tools/list_changed").size(), 1u);
  // Another conversation found nothing yet.
  session_ = NewSession();
  Initialize();
  EXPECT_THAT(Listed(), ElementsAre("find_tool", "call_tool"));
}

TEST_F(SessionTest, KeepsBackWhatTheRulesRefuse) {
  GatewayOptions options = FakeOptions({FakeServer("a", "rich")});
  options.tools.rules.read_only = true;
  options.expose = Expose::kAll;
  Start(std::move(options));
  Initialize();
  EXPECT_THAT(Listed(), ElementsAre("a__read_note"));
  EXPECT_TRUE(Ask("tools/call",
                  {{"name", "a__delete_note"}, {"arguments", {{"id", 1}}}})
                  .error);
}

// A reference that names both is the one that its type says.
TEST_F(SessionTest, CompletesOnlyWhatTheRulesShow) {
  constexpr char kTemplate[] = "note://{id}";
  struct {
    std::vector<std::string> deny;
    bool shows_prompt;
    bool shows_template;
  } const cases[] = {{{}, true, true},
                     {{"a/greet"}, false, true},
                     {{"a/note://*"}, true, false},
                     {{"a/note://{id}"}, true, false},
                     {{"a/*"}, false, false}};
  for (const auto& item : cases) {
    GatewayOptions options = FakeOptions({FakeServer("a", "rich")});
    options.tools.rules.deny = item.deny;
    session_ = nullptr;
    Start(std::move(options));
    Initialize();
    // The text of the reference that the server got; empty: none came there.
    const auto complete = [&](const Json& ref) -> std::string {
      const RpcResponse answer =
          Ask("completion/complete",
              {{"ref", ref}, {"argument", {{"name", "x"}, {"value", "y"}}}});
      if (!answer.error) return answer.result["completion"]["values"][0];
      EXPECT_EQ(answer.error->code, -32602);
      return {};
    };
    const std::string prompt = R"({"type":"ref/prompt","name":"greet"})";
    const std::string resource =
        R"({"type":"ref/resource","uri":"note://{id}"})";
    for (const char* name : {"a__greet", "greet"}) {
      const bool is_exposed = std::string(name) == "a__greet";
      EXPECT_EQ(complete({{"type", "ref/prompt"}, {"name", name}}),
                item.shows_prompt && is_exposed ? prompt : "");
      EXPECT_EQ(
          complete(
              {{"type", "ref/prompt"}, {"name", name}, {"uri", kTemplate}}),
          item.shows_prompt && is_exposed ? prompt : "");
      EXPECT_EQ(
          complete(
              {{"type", "ref/resource"}, {"name", name}, {"uri", kTemplate}}),
          item.shows_template ? resource : "");
      EXPECT_EQ(complete({{"name", name}, {"uri", kTemplate}}), "");
    }
    EXPECT_EQ(complete({{"type", "ref/resource"}, {"uri", kTemplate}}),
              item.shows_template ? resource : "");
    EXPECT_EQ(
        Ask("resources/templates/list").result["resourceTemplates"].size(),
        item.shows_template ? 1u : 0u);
    EXPECT_EQ(Ask("prompts/list").result["prompts"].size(),
              item.shows_prompt ? 1u : 0u);
  }
}

TEST_F(SessionTest, CompletesAtTheServerThatMayShowTheTemplate) {
  GatewayOptions options =
      FakeOptions({FakeServer("a", "rich"), FakeServer("b", "rich")});
  options.tools.rules.deny = {"a/note://*"};
  Start(std::move(options));
  Initialize();
  EXPECT_FALSE(Ask("completion/complete",
                   {{"ref", {{"type", "ref/resource"}, {"uri", "note://{id}"}}},
                    {"argument", {{"name", "id"}, {"value", "1"}}}})
                   .error);
}

TEST_F(SessionTest, NotesRulesThatMeetNothing) {
  GatewayOptions options = FakeOptions({FakeServer("a", "rich")});
  const std::vector<std::string> meeting = {"a/read_note", "a/greet",
                                            "a/note://1", "a/note://{id}"};
  // Names that are shown, but by which nothing is kept back.
  const std::vector<std::string> idle = {"a/one", "a/any", "a/Read"};
  options.tools.rules.deny = meeting;
  options.tools.rules.deny.insert(options.tools.rules.deny.end(), idle.begin(),
                                  idle.end());
  Mutex mutex;
  std::string notes;
  options.note = [&](const std::string& line) {
    MutexLock lock(mutex);
    notes += line + "\n";
  };
  Start(std::move(options));
  const auto is_noted = [&](const std::string& glob) {
    MutexLock lock(mutex);
    return notes.find("--deny '" + glob + "' matches nothing") !=
           std::string::npos;
  };
  for (const std::string& glob : idle) {
    EXPECT_TRUE(Eventually([&] { return is_noted(glob); })) << glob;
  }
  for (const std::string& glob : meeting) EXPECT_FALSE(is_noted(glob)) << glob;
  session_ = nullptr;
  gateway_ = nullptr;
}

TEST_F(SessionTest, PassesLogsOnFromTheLevelThatWasSet) {
  Start({FakeServer("a", "rich")});
  Call("a__log", Json::object());
  const auto logs = heard_.Of("notifications/message");
  ASSERT_EQ(logs.size(), 2u);  // info and error; debug is under the default
  EXPECT_EQ(logs[0].params["logger"], "a/db");
  EXPECT_EQ(logs[0].params["data"]["n"], 1);
  EXPECT_FALSE(Ask("logging/setLevel", {{"level", "error"}}).error);
  Call("a__log", Json::object());
  EXPECT_EQ(heard_.Of("notifications/message").size(), 3u);
}

TEST_F(SessionTest, OffersPromptsUnderNamesOfTheirOwn) {
  Start({FakeServer("a", "rich"), FakeServer("b", "rich")});
  const Json prompts = Ask("prompts/list").result["prompts"];
  ASSERT_EQ(prompts.size(), 2u);
  EXPECT_EQ(prompts[1]["name"], "b__greet");
  EXPECT_EQ(prompts[1]["arguments"][0]["name"], "who");
  const Json prompt = Ask("prompts/get", {{"name", "b__greet"},
                                          {"arguments", {{"who", "Ada"}}}})
                          .result;
  EXPECT_EQ(prompt["description"], "greet");
  EXPECT_EQ(prompt["messages"][0]["content"]["text"], "hello Ada");
  const Json completed =
      Ask("completion/complete",
          {{"ref", {{"type", "ref/prompt"}, {"name", "a__greet"}}},
           {"argument", {{"name", "who"}, {"value", "A"}}}})
          .result;
  EXPECT_THAT(completed["completion"]["values"][0].get<std::string>(),
              AllOf(HasSubstr("greet"), Not(HasSubstr("a__greet"))));
}

TEST_F(SessionTest, ReadsResourcesFromTheServerThatHasThem) {
  Start({FakeServer("none", "normal"), FakeServer("a", "rich")});
  const Json resources = Ask("resources/list").result["resources"];
  ASSERT_EQ(resources.size(), 1u);
  EXPECT_EQ(resources[0]["uri"], "note://1");
  EXPECT_EQ(resources[0]["name"], "a__one");
  EXPECT_EQ(Ask("resources/templates/list")
                .result["resourceTemplates"][0]["uriTemplate"],
            "note://{id}");
  for (const char* uri : {"note://1", "note://by-template", "other://x"}) {
    EXPECT_EQ(
        Ask("resources/read", {{"uri", uri}}).result["contents"][0]["uri"],
        uri);
  }
  const RpcResponse missing = Ask("resources/read", {{"uri", "note://404"}});
  ASSERT_TRUE(missing.error);
  EXPECT_EQ(missing.error->code, -32002);
}

TEST_F(SessionTest, WorksWithoutAnyServerThatWorks) {
  mcp::McpServerConfig silent = FakeServer("silent", "silent");
  silent.connect_timeout_ms = 100;
  Start({FakeServer("dead", "exit"), FakeServer("empty", "empty"), silent});
  const Json found = Call("find_tool", {{"query", "anything"}});
  const Json& answer = found["structuredContent"];
  EXPECT_EQ(answer["decision"], "abstain");
  EXPECT_EQ(answer["tools"], Json::array());
  ASSERT_EQ(answer["missing"].size(), 2u);
  EXPECT_THAT(answer["missing"][0]["reason"].get<std::string>(),
              HasSubstr("no such file"));
  EXPECT_THAT(ErrorText("call_tool", {{"name", "x"}}), HasSubstr("dead"));
}

TEST_F(SessionTest, ServesAThousandTools) {
  Start({FakeServer("big", "many")}, Expose::kAll);
  EXPECT_EQ(Listed().size(), 1000u);
  gateway_->Remove(session_.get());
  session_ = nullptr;
  Start({FakeServer("big", "many")});
  const Json found = Call("find_tool", {{"query", "tool_617"}});
  EXPECT_EQ(found["structuredContent"]["tools"][0]["tool"], "tool_617");
}

TEST_F(SessionTest, RefusesASecondRequestOfOneIdAndTooManyAtOnce) {
  Start(FakeOptions({FakeServer("a", "normal")}));
  session_ = std::make_unique<Session>(gateway_.get(),
                                       SessionOptions{.max_requests = 2});
  const auto admit = [&](int64_t id) {
    return session_->Admit({.id = id, .method = "ping", .params = nullptr});
  };
  const auto first = admit(1);
  const auto twin = admit(1);
  ASSERT_TRUE(twin->refusal);
  EXPECT_EQ(twin->refusal->error->code, -32600);
  const auto second = admit(2);
  const auto third = admit(3);
  ASSERT_TRUE(third->refusal);
  EXPECT_THAT(third->refusal->error->message, HasSubstr("2 requests"));
  EXPECT_TRUE(session_->Run(first, nullptr).has_value());
  EXPECT_TRUE(session_->Run(twin, nullptr)->error.has_value());
  EXPECT_TRUE(session_->Run(second, nullptr).has_value());
  EXPECT_FALSE(admit(1)->refusal);
  session_->CancelAll();
}

}  // namespace
}  // namespace nexus::gateway
