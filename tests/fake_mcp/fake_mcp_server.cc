// A small MCP server over stdio that misbehaves on demand. Its first argument
// is a mode, which sets how it starts; most tools misbehave in one call.
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "rich_mode.h"

namespace {

using Json = nlohmann::ordered_json;

std::string g_mode = "normal";
int g_cancelled = 0;
Json g_subscription;  // of the mode "stateless"
std::vector<std::string> g_client_answers;
Json g_waiting_id;  // of the call to "ask_client"

void WriteRaw(const std::string& bytes) {
  std::fwrite(bytes.data(), 1, bytes.size(), stdout);
  std::fflush(stdout);
}

std::string Line(const Json& message) { return message.dump() + "\n"; }

std::string Answer(const Json& id, const Json& result) {
  return Line({{"jsonrpc", "2.0"}, {"id", id}, {"result", result}});
}

std::string ErrorAnswer(const Json& id, int code, const std::string& message) {
  return Line({{"jsonrpc", "2.0"},
               {"id", id},
               {"error", {{"code", code}, {"message", message}}}});
}

std::string Notification(const std::string& method, const Json& params) {
  return Line({{"jsonrpc", "2.0"}, {"method", method}, {"params", params}});
}

Json Text(const std::string& text) {
  return {{"content", Json::array({{{"type", "text"}, {"text", text}}})}};
}

Json Tool(const std::string& name) {
  return {
      {"name", name},
      {"description", "Does " + name},
      {"inputSchema",
       {{"type", "object"}, {"properties", {{"text", {{"type", "string"}}}}}}}};
}

void Sleep(int ms) { ::usleep(static_cast<useconds_t>(ms) * 1000); }

using ToolHandler = std::function<void(const Json& id, const Json& params)>;

const std::map<std::string, ToolHandler>& Tools() {
  static const std::map<std::string, ToolHandler> tools = {
      {"echo",
       [](const Json& id, const Json& params) {
         WriteRaw(Answer(id, Text(params["arguments"].value("text", ""))));
       }},
      {"hang", [](const Json&, const Json&) {}},
      {"count_cancelled",
       [](const Json& id, const Json&) {
         WriteRaw(Answer(id, Text(std::to_string(g_cancelled))));
       }},
      {"die",
       [](const Json&, const Json&) {
         std::fputs("first line\nout of cheese\n", stderr);
         std::exit(3);
       }},
      {"crash", [](const Json&, const Json&) { ::kill(::getpid(), SIGKILL); }},
      {"half_then_die",
       [](const Json& id, const Json&) {
         WriteRaw(Answer(id, Text("never")).substr(0, 25));
         std::exit(4);
       }},
      {"half_then_rest",
       [](const Json& id, const Json&) {
         const std::string line = Answer(id, Text("whole"));
         WriteRaw(line.substr(0, line.size() / 2));
         Sleep(50);
         WriteRaw(line.substr(line.size() / 2));
       }},
      {"flood",
       [](const Json& id, const Json&) {
         std::string burst;
         for (int i = 0; i < 20000; ++i) {
           burst += Notification("notifications/message",
                                 {{"level", "info"}, {"data", i}});
         }
         WriteRaw(burst + Answer(id, Text("survived")));
       }},
      {"huge",
       [](const Json& id, const Json&) {
         WriteRaw(R"({"jsonrpc":"2.0","id":)" + id.dump() + R"(,"result":")");
         const std::string piece(1 << 20, 'x');
         for (int i = 0; i < 100; ++i) WriteRaw(piece);
         WriteRaw("\"}\n");
       }},
      {"wrong_id",
       [](const Json& id, const Json&) {
         WriteRaw(Answer(id.get<int>() + 1000, Text("of another")));
         WriteRaw(Answer("x" + id.dump(), Text("of a text id")));
         WriteRaw(Answer(id, Text("right")));
       }},
      {"duplicate",
       [](const Json& id, const Json&) {
         WriteRaw(Answer(id, Text("first")) + Answer(id, Text("second")));
       }},
      {"no_id_error",
       [](const Json&, const Json&) {
         WriteRaw(ErrorAnswer(nullptr, -32700, "can't read that"));
       }},
      {"not_objects",
       [](const Json& id, const Json&) {
         WriteRaw("42\n[]\nnull\n\"text\"\n{}\n{\"jsonrpc\":\"1.0\"}\n[1]\n");
         WriteRaw(Answer(id, Text("after rubbish")));
       }},
      {"batch",
       [](const Json& id, const Json&) {
         const Json answer = Json::parse(Answer(id, Text("in a batch")));
         const Json note = {{"jsonrpc", "2.0"}, {"method", "notifications/x"}};
         WriteRaw(Line(Json::array({note, answer})));
       }},
      {"bad_utf8",
       [](const Json& id, const Json&) {
         std::string line = Answer(id, Text("caf#"));
         line.replace(line.find('#'), 1, "\xE9");
         WriteRaw(line);
         WriteRaw(Answer(id, Text("clean")));
       }},
      {"logs",
       [](const Json& id, const Json&) {
         WriteRaw("INFO starting up\n\n  at foo (bar.js:1)\r\n");
         WriteRaw(Answer(id, Text("logged")));
       }},
      {"tool_error",
       [](const Json& id, const Json&) {
         Json result = Text("no such city");
         result["isError"] = true;
         WriteRaw(Answer(id, result));
       }},
      {"rpc_error",
       [](const Json& id, const Json&) {
         WriteRaw(ErrorAnswer(id, -32602, "text is missing"));
       }},
      {"parts",
       [](const Json& id, const Json&) {
         WriteRaw(Answer(id, Json::parse(
                                 R"({"content":[{"type":"text","text":"a"},
                     {"type":"image","mimeType":"image/png","data":"AAAA"},
                     {"type":"resource","resource":{"uri":"f:x","text":"b"}},
                     {"type":"resource_link","uri":"f:y"}, {"type":"new"}, 7],
                     "structuredContent":{"n":1}})")));
       }},
      {"bad_result",
       [](const Json& id, const Json&) { WriteRaw(Answer(id, Json(7))); }},
      {"progress",
       [](const Json& id, const Json& params) {
         const Json token = params["_meta"]["progressToken"];
         for (int i = 1; i <= 3; ++i) {
           WriteRaw(
               Notification("notifications/progress", {{"progressToken", token},
                                                       {"progress", i},
                                                       {"total", 3},
                                                       {"message", "step"}}));
         }
         WriteRaw(Answer(id, Text("done")));
       }},
      {"ask_client",
       [](const Json& id, const Json&) {
         g_waiting_id = id;
         g_client_answers.clear();
         for (const char* method :
              {"ping", "roots/list", "sampling/createMessage"}) {
           WriteRaw(Line({{"jsonrpc", "2.0"},
                          {"id", std::string("s-") + method},
                          {"method", method}}));
         }
       }},
      {"change_tools",
       [](const Json& id, const Json&) {
         Json news = Json::object();
         if (!g_subscription.is_null()) {
           news["_meta"]["io.modelcontextprotocol/subscriptionId"] =
               g_subscription;
         }
         if (g_mode != "stateless" || !g_subscription.is_null()) {
           WriteRaw(Notification("notifications/tools/list_changed", news));
         }
         WriteRaw(Answer(id, Text("changed")));
       }},
      {"environment",
       [](const Json& id, const Json&) {
         const char* value = std::getenv("FAKE_VALUE");
         char folder[4096] = "?";
         if (::getcwd(folder, sizeof(folder)) == nullptr) folder[0] = '?';
         int open_fds = 0;
         for (int fd = 3; fd < 256; ++fd) {
           if (::fcntl(fd, F_GETFD) >= 0) ++open_fds;
         }
         WriteRaw(Answer(id, Text(std::string(value ? value : "unset") + "|" +
                                  folder + "|" + std::to_string(open_fds))));
       }},
  };
  return tools;
}

void List(const Json& id, const Json& params) {
  Json tools = Json::array();
  if (g_mode == "pages" || g_mode == "endless" || g_mode == "loop") {
    const std::string cursor = params.value("cursor", "0");
    const int page = std::atoi(cursor.c_str());
    for (int i = 0; i < 3; ++i) {
      tools.push_back(Tool("tool_" + std::to_string(page * 3 + i)));
    }
    Json result = {{"tools", tools}};
    if (g_mode == "endless" || page < 4) {
      result["nextCursor"] = std::to_string(page + 1);
    } else if (g_mode == "loop") {
      result["nextCursor"] = "2";
    }
    WriteRaw(Answer(id, result));
    return;
  }
  if (g_mode == "many") {
    for (int i = 0; i < 1000; ++i) {
      tools.push_back(Tool("tool_" + std::to_string(i)));
    }
    WriteRaw(Answer(id, {{"tools", tools}}));
    return;
  }
  if (g_mode == "empty") {
    WriteRaw(Answer(id, {{"tools", tools}}));
    return;
  }
  if (g_mode == "bad-list") {
    WriteRaw(Answer(id, {{"tools", "none"}}));
    return;
  }
  for (const auto& [name, handler] : Tools()) tools.push_back(Tool(name));
  if (g_mode == "broken-tools") {
    tools.push_back({{"description", "no name"}});
    tools.push_back(7);
    tools.push_back({{"name", "odd"}, {"inputSchema", "text"}});
    tools.push_back(Tool("echo"));
  }
  WriteRaw(Answer(id, {{"tools", tools}}));
}

void Initialize(const Json& id) {
  if (g_mode == "silent") return;
  if (g_mode == "refuse") {
    WriteRaw(ErrorAnswer(id, -32000, "licence expired"));
    return;
  }
  if (g_mode == "stateless") {
    WriteRaw(ErrorAnswer(id, -32601, "no handshake in 2026-07-28"));
    return;
  }
  std::string version = "2025-11-25";
  if (g_mode == "old") version = "2024-11-05";
  if (g_mode == "future") version = "2031-01-01";
  Json capabilities = {{"tools", {{"listChanged", true}}}};
  if (g_mode == "no-tools") capabilities = Json::object();
  WriteRaw(Answer(id, {{"protocolVersion", version},
                       {"capabilities", capabilities},
                       {"serverInfo", {{"name", "fake"}, {"version", "1.2"}}},
                       {"instructions", "Be kind."}}));
}

void Handle(const Json& message) {
  const std::string method = message.value("method", "");
  const Json id = message.contains("id") ? message["id"] : Json();
  const Json params =
      message.contains("params") ? message["params"] : Json::object();
  if (g_mode == "stateless" && !id.is_null() && method != "initialize") {
    const Json meta = params.value("_meta", Json::object());
    if (meta.value("io.modelcontextprotocol/protocolVersion", "") !=
        "2026-07-28") {
      WriteRaw(ErrorAnswer(id, -32022, "no version in _meta"));
      return;
    }
  }
  if (method == "initialize") {
    Initialize(id);
  } else if (method == "server/discover" && g_mode == "stateless") {
    WriteRaw(Answer(id, {{"resultType", "complete"},
                         {"supportedVersions", {"2026-07-28"}},
                         {"capabilities",
                          {{"tools", {{"listChanged", true}}},
                           {"resources", Json::object()}}},
                         {"_meta",
                          {{"io.modelcontextprotocol/serverInfo",
                            {{"name", "fake"}, {"version", "2"}}}}}}));
  } else if (method == "subscriptions/listen" && g_mode == "stateless") {
    g_subscription = id;
    WriteRaw(Notification(
        "notifications/subscriptions/acknowledged",
        {{"_meta", {{"io.modelcontextprotocol/subscriptionId", id}}},
         {"notifications", params["notifications"]}}));
  } else if (method == "tools/list") {
    List(id, params);
  } else if (method == "tools/call") {
    const auto tool = Tools().find(params.value("name", ""));
    if (tool == Tools().end()) {
      WriteRaw(ErrorAnswer(id, -32602, "unknown tool"));
    } else {
      tool->second(id, params);
    }
  } else if (method == "ping") {
    WriteRaw(Answer(id, Json::object()));
  } else if (method == "notifications/cancelled") {
    ++g_cancelled;
  } else if (method.empty() && !g_waiting_id.is_null()) {
    g_client_answers.push_back(message["id"].get<std::string>() + "=" +
                               (message.contains("error")
                                    ? message["error"]["code"].dump()
                                    : message["result"].dump()));
    if (g_client_answers.size() < 3) return;
    std::string all;
    for (const std::string& answer : g_client_answers) all += answer + ";";
    WriteRaw(Answer(g_waiting_id, Text(all)));
    g_waiting_id = nullptr;
  } else if (!id.is_null()) {
    WriteRaw(ErrorAnswer(id, -32601, "unknown method"));
  }
}

// A process that inherits the pipes and outlives the server. Its life ends by
// itself, should the one under test fail to end it.
void StartGrandchild() {
  if (::fork() != 0) return;
  ::signal(SIGTERM, SIG_IGN);
  Sleep(20000);
  std::_Exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) g_mode = argv[1];
  if (g_mode == "exit") {
    std::fputs("config.yaml: no such file\n", stderr);
    return 7;
  }
  if (g_mode == "grandchild") StartGrandchild();
  if (g_mode == "noise") WriteRaw("Fake MCP server listening\nready!\n");
  if (g_mode == "stubborn") {
    ::signal(SIGTERM, SIG_IGN);
  }
  if (g_mode == "deaf") {
    while (true) Sleep(1000);  // reads nothing; ended by a signal
  }
  std::string line;
  while (std::getline(std::cin, line)) {
    const Json message = Json::parse(line, nullptr, false);
    if (message.is_object() && g_mode == "rich") {
      fake_mcp::HandleRich(message,
                           [](const Json& out) { WriteRaw(Line(out)); });
    } else if (message.is_object()) {
      Handle(message);
    }
    if (g_mode == "exit-after-handshake" &&
        message.value("method", "") == "notifications/initialized") {
      return 0;
    }
  }
  if (g_mode == "stubborn") {
    for (int i = 0; i < 20; ++i) Sleep(1000);
  }
  return 0;
}
