#include "rich_mode.h"

#include <string>

namespace fake_mcp {
namespace {

bool g_has_grown = false;
bool g_has_more_prompts = false;

Json Parsed(const char* text) { return Json::parse(text); }

Json ToolList() {
  Json tools = Parsed(R"([
    {"name": "read_note", "title": "Read", "description": "Reads a note aloud",
     "inputSchema": {"type": "object",
       "properties": {"id": {"type": "integer", "minimum": 1}},
       "required": ["id"]},
     "outputSchema": {"type": "object"},
     "annotations": {"readOnlyHint": true},
     "_meta": {"example/x": 1}},
    {"name": "delete_note", "description": "Deletes a note for ever",
     "inputSchema": {"type": "object",
       "properties": {"id": {"type": "integer"}}, "required": ["id"]},
     "annotations": {"readOnlyHint": false, "destructiveHint": true}},
    {"name": "everything", "description": "Answers with each kind of content",
     "inputSchema": {"type": "object"}},
    {"name": "show_params", "description": "Answers with what it was sent",
     "inputSchema": {"type": "object"}},
    {"name": "refuse", "description": "Refuses as the protocol does",
     "inputSchema": {"type": "object"}},
    {"name": "in_region", "description": "Answers from one region",
     "inputSchema": {"type": "object", "properties": {
       "region": {"type": ["string", "null"], "x-mcp-header": "Region"}}}},
    {"name": "log", "description": "Logs at each level",
     "inputSchema": {"type": "object"}},
    {"name": "grow", "description": "Adds a tool and a prompt",
     "inputSchema": {"type": "object"}}])");
  if (g_has_grown) {
    tools.push_back({{"name", "grown"},
                     {"description", "Juggles flamingos"},
                     {"inputSchema", {{"type", "object"}}}});
  }
  return tools;
}

const char kEverything[] = R"({
  "content": [
    {"type": "text", "text": "a", "annotations": {"priority": 0.5}},
    {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="},
    {"type": "audio", "mimeType": "audio/wav", "data": "UklGRg=="},
    {"type": "resource_link", "uri": "note://1", "name": "one"},
    {"type": "resource", "resource": {"uri": "note://2", "text": "two"}}],
  "structuredContent": {"n": 1, "list": [1, 2.5, null]},
  "isError": false,
  "_meta": {"example/trace": "abc"}})";

Json Text(const std::string& text) {
  return {{"content", Json::array({{{"type", "text"}, {"text", text}}})}};
}

Json PromptList() {
  Json prompts = Parsed(R"([{"name": "greet", "description": "Says hello",
    "arguments": [{"name": "who", "required": true}]}])");
  if (g_has_more_prompts) prompts.push_back({{"name", "part"}});
  return prompts;
}

}  // namespace

void HandleRich(const Json& message,
                const std::function<void(const Json&)>& write) {
  if (!message.contains("id") || !message.contains("method")) return;
  const std::string method = message["method"];
  const Json params = message.value("params", Json::object());
  const auto answer = [&](const Json& result) {
    write({{"jsonrpc", "2.0"}, {"id", message["id"]}, {"result", result}});
  };
  const auto refuse = [&](int code, const char* text) {
    write({{"jsonrpc", "2.0"},
           {"id", message["id"]},
           {"error",
            {{"code", code}, {"message", text}, {"data", {{"why", "fake"}}}}}});
  };
  const auto notify = [&](const char* what, const Json& with) {
    write({{"jsonrpc", "2.0"}, {"method", what}, {"params", with}});
  };
  if (method == "initialize") {
    answer(Parsed(R"({"protocolVersion": "2025-11-25",
      "capabilities": {"tools": {"listChanged": true}, "logging": {},
        "prompts": {"listChanged": true}, "resources": {}, "completions": {}},
      "serverInfo": {"name": "rich", "version": "1"}})"));
  } else if (method == "tools/list") {
    answer({{"tools", ToolList()}});
  } else if (method == "prompts/list") {
    answer({{"prompts", PromptList()}});
  } else if (method == "prompts/get") {
    const Json arguments = params.value("arguments", Json());
    const Json who =
        arguments.is_object() ? arguments.value("who", Json()) : Json();
    answer(
        {{"description", params["name"]},
         {"messages",
          Json::array(
              {{{"role", "user"},
                {"content",
                 {{"type", "text"},
                  {"text", "hello " + (who.is_string() ? std::string(who)
                                                       : who.dump())}}}}})}});
  } else if (method == "completion/complete") {
    answer({{"completion", {{"values", Json::array({params["ref"].dump()})}}}});
  } else if (method == "resources/list") {
    answer({{"resources", Parsed(R"([{"uri": "note://1", "name": "one"}])")}});
  } else if (method == "resources/templates/list") {
    answer({{"resourceTemplates",
             Parsed(R"([{"uriTemplate": "note://{id}", "name": "any"}])")}});
  } else if (method == "resources/read") {
    if (params["uri"] == "note://404") {
      refuse(-32002, "no such note");
    } else {
      answer({{"contents",
               Json::array({{{"uri", params["uri"]}, {"text", "a note"}}})}});
    }
  } else if (method == "logging/setLevel" || method == "ping") {
    answer(Json::object());
  } else if (method != "tools/call") {
    refuse(-32601, "unknown method");
  } else if (params["name"] == "everything") {
    answer(Parsed(kEverything));
  } else if (params["name"] == "show_params") {
    answer(Text(params.dump()));
  } else if (params["name"] == "refuse") {
    refuse(-32042, "go and sign in first");
  } else if (params["name"] == "log") {
    for (const char* level : {"debug", "info", "error"}) {
      notify("notifications/message",
             {{"level", level}, {"logger", "db"}, {"data", {{"n", 1}}}});
    }
    answer(Text("logged"));
  } else if (params["name"] == "grow") {
    g_has_grown = true;
    g_has_more_prompts = true;
    notify("notifications/tools/list_changed", Json::object());
    notify("notifications/prompts/list_changed", Json::object());
    answer(Text("grown"));
  } else {
    answer(
        Text(std::string(params["name"]) + " " + params["arguments"].dump()));
  }
}

}  // namespace fake_mcp
