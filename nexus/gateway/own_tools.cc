#include "nexus/gateway/own_tools.h"

#include <cmath>
#include <utility>

#include "nexus/mcp/json_fields.h"
#include "nexus/schema/argument_validator.h"

namespace nexus::gateway {
namespace {

constexpr int kDefaultLimit = 5;
constexpr int kMaxLimit = 50;
// A schema up to this long stands in the error about wrong arguments.
constexpr size_t kMaxShownSchemaBytes = 4096;

Json FindToolSchema() {
  return {
      {"type", "object"},
      {"properties",
       {{"query",
         {{"type", "string"},
          {"description",
           "What you want to do, in plain words, or the name of a tool"}}},
        {"limit",
         {{"type", "integer"},
          {"minimum", 1},
          {"maximum", kMaxLimit},
          {"default", kDefaultLimit},
          {"description", "How many tools to show at most"}}},
        {"server",
         {{"type", "string"}, {"description", "Only tools of this server"}}}}},
      {"required", {"query"}},
      {"additionalProperties", false}};
}

Json CallToolSchema() {
  return {
      {"type", "object"},
      {"properties",
       {{"name",
         {{"type", "string"},
          {"description",
           "The tool's name as find_tool gave it, or its name on the server "
           "together with `server`"}}},
        {"server",
         {{"type", "string"}, {"description", "The server of the tool"}}},
        {"arguments",
         {{"type", "object"},
          {"description",
           "What the tool's inputSchema asks for; {} when nothing"}}}}},
      {"required", {"name"}},
      {"additionalProperties", false}};
}

double Rounded(float value) {
  return std::round(static_cast<double>(value) * 1e4) / 1e4;
}

// With the JSON also as text, as the protocol asks for older clients' sake.
Json StructuredResult(Json structured) {
  Json result = {{"content", Json::array({{{"type", "text"},
                                           {"text", DumpJson(structured)}}})}};
  result["structuredContent"] = std::move(structured);
  return result;
}

Status CheckArguments(const Json& schema, const Json& arguments) {
  NEXUS_ASSIGN_OR_RETURN(const auto validator,
                         schema::ArgumentValidator::Create(schema));
  return validator->Validate(arguments);
}

std::string WrongArguments(const std::string& tool, const Status& status,
                           const Json& schema) {
  std::string text = "The arguments of " + tool +
                     " are wrong, so nothing was called. " + status.message();
  const std::string shown = DumpJson(schema);
  text += shown.size() <= kMaxShownSchemaBytes
              ? "\nIts inputSchema: " + shown
              : "\nAsk find_tool for its inputSchema.";
  return text;
}

const char* DecisionName(route::Outcome outcome) {
  switch (outcome) {
    case route::Outcome::kRoute:
      return "route";
    case route::Outcome::kRerank:
      return "ask_back";
    case route::Outcome::kAbstain:
      return "abstain";
  }
  return "abstain";
}

const char* Advice(route::Outcome outcome) {
  switch (outcome) {
    case route::Outcome::kRoute:
      return "The first tool fits: call it with call_tool.";
    case route::Outcome::kRerank:
      return "Several tools come close: choose by their descriptions, or ask "
             "the user which is meant.";
    case route::Outcome::kAbstain:
      return "No tool is known to fit; those shown, if any, are only the "
             "nearest. Ask again in other words, or go on without a tool.";
  }
  return "";
}

Json FoundTool(const Gateway& gateway, const GatewayTool& tool, float score) {
  const schema::ToolSchema& schema = tool.schema();
  Json entry = {{"server", tool.server()},
                {"name", tool.exposed_name()},
                {"tool", schema.name},
                {"score", Rounded(score)},
                {"description", schema.description}};
  const bool reads = schema.annotations.read_only == true;
  if (reads) entry["readOnly"] = true;
  if (!reads && schema.annotations.destructive == true) {
    entry["destructive"] = true;
  }
  if (const Upstream* upstream = gateway.FindUpstream(tool.server())) {
    if (const UpstreamView view = upstream->view();
        view.state == UpstreamState::kDown) {
      entry["unavailable"] = view.problem;
    }
  }
  entry["inputSchema"] = schema.parameters;
  for (const char* key : {"outputSchema", "annotations"}) {
    if (tool.raw().contains(key)) entry[key] = tool.raw()[key];
  }
  return entry;
}

// Servers whose tools can't be among the answers.
Json MissingServers(const Gateway& gateway) {
  Json missing = Json::array();
  for (const auto& upstream : gateway.upstreams()) {
    const UpstreamView view = upstream->view();
    if (!view.lists->tools.empty()) continue;
    if (view.state == UpstreamState::kDisabled) continue;
    if (view.state == UpstreamState::kReady) continue;
    missing.push_back({{"server", upstream->name()},
                       {"reason", view.problem.empty() ? "it is still starting"
                                                       : view.problem}});
  }
  return missing;
}

std::string ServerNames(const Gateway& gateway) {
  std::string names;
  for (const auto& upstream : gateway.upstreams()) {
    names += (names.empty() ? "" : ", ") + upstream->name();
  }
  return names;
}

}  // namespace

Json FindToolEntry(const Gateway& gateway) {
  return {{"name", kFindTool},
          {"title", "Find a tool"},
          {"description",
           "Finds tools for a task among all tools of these servers: " +
               ServerNames(gateway) +
               ". Say what you want to do; the answer has the tools that fit "
               "best, each with its inputSchema, and whether the first one is "
               "sure (decision: route), several come close (ask_back) or none "
               "fits (abstain). Then call one with call_tool."},
          {"inputSchema", FindToolSchema()},
          {"annotations", {{"readOnlyHint", true}, {"openWorldHint", false}}}};
}

Json CallToolEntry() {
  return {{"name", kCallTool},
          {"title", "Call a tool"},
          {"description",
           "Calls a tool that find_tool found. The arguments are checked "
           "against the tool's inputSchema before anything is called."},
          {"inputSchema", CallToolSchema()}};
}

Json ToolError(const std::string& text) {
  return {{"content", Json::array({{{"type", "text"}, {"text", text}}})},
          {"isError", true}};
}

FindAnswer FindTool(Gateway* gateway, const Json& arguments,
                    const mcp::CallOptions& options) {
  if (const Status status = CheckArguments(FindToolSchema(), arguments);
      !status.ok()) {
    return {.result =
                ToolError(WrongArguments(kFindTool, status, FindToolSchema())),
            .found = {}};
  }
  const std::string server = mcp::StringOf(arguments, "server");
  if (!server.empty() && gateway->FindUpstream(server) == nullptr) {
    return {.result = ToolError("There is no server '" + server +
                                "'; there are: " + ServerNames(*gateway)),
            .found = {}};
  }
  const auto tools = gateway->AwaitTools(options.cancel);
  route::RouteOptions route_options{.top_k = kDefaultLimit};
  if (arguments.contains("limit")) {
    route_options.top_k = static_cast<int>(mcp::NumberOf(arguments, "limit"));
  }
  if (!server.empty()) route_options.servers = {server};
  const auto decision =
      tools->router().Route(mcp::StringOf(arguments, "query"), route_options);
  if (!decision.ok()) {
    return {.result =
                ToolError("The search failed: " + decision.status().message()),
            .found = {}};
  }
  FindAnswer answer;
  Json found = Json::array();
  for (const route::Candidate& candidate : decision->candidates) {
    const GatewayTool& tool =
        *tools->tools()[static_cast<size_t>(candidate.tool)];
    found.push_back(FoundTool(*gateway, tool, candidate.score));
    answer.found.push_back(tool.exposed_name());
  }
  Json structured = {{"decision", DecisionName(decision->outcome)},
                     {"reason", decision->reason},
                     {"advice", Advice(decision->outcome)},
                     {"margin", Rounded(decision->margin)},
                     {"threshold", Rounded(decision->threshold)},
                     {"tools", std::move(found)}};
  if (Json missing = MissingServers(*gateway); !missing.empty()) {
    structured["missing"] = std::move(missing);
  }
  if (!gateway->settled()) {
    structured["note"] =
        "Servers are still starting, or their tools are still being indexed: "
        "a later search may find more.";
  }
  answer.result = StructuredResult(std::move(structured));
  return answer;
}

mcp::RpcResponse CallServer(Gateway* gateway, const GatewayTool& tool,
                            Json arguments, const HandedOn& handed_on,
                            const mcp::CallOptions& options) {
  mcp::RpcResponse response;
  if (arguments.is_null()) arguments = Json::object();
  if (const Status status = tool.Validate(arguments); !status.ok()) {
    response.result = ToolError(
        WrongArguments(tool.exposed_name(), status, tool.schema().parameters));
    return response;
  }
  Upstream* upstream = gateway->FindUpstream(tool.server());
  if (upstream == nullptr) {
    response.result = ToolError("There is no server '" + tool.server() + "'");
    return response;
  }
  Json params = {{"name", tool.schema().name},
                 {"arguments", std::move(arguments)}};
  if (handed_on.meta.is_object()) params["_meta"] = handed_on.meta;
  if (handed_on.before_call) handed_on.before_call(tool.server());
  auto answer = upstream->Request("tools/call", std::move(params), options);
  if (!answer.ok()) {
    response.result = ToolError(answer.status().message());
    return response;
  }
  response.error = std::move(answer->error);
  if (response.error) return response;
  // Everything in it goes through, whatever it is; but it must be a result.
  auto read = mcp::ReadCallResult(std::move(answer->result));
  if (!read.ok()) {
    response.result =
        ToolError("MCP server '" + tool.server() + "', tool '" +
                  tool.schema().name + "': " + read.status().message());
    return response;
  }
  response.result = std::move(read->raw);
  if (!response.result.contains("content")) {
    response.result["content"] = Json::array();
  }
  return response;
}

Json CallTool(Gateway* gateway, const Json& given, const HandedOn& handed_on,
              const mcp::CallOptions& options) {
  Json arguments = given;
  // Models often write the inner object as a string of JSON.
  if (arguments.is_object() && arguments.contains("arguments") &&
      arguments["arguments"].is_string()) {
    auto parsed =
        ParseJson(arguments["arguments"].get<std::string>(), "arguments");
    if (parsed.ok()) arguments["arguments"] = std::move(parsed).value();
  }
  if (const Status status = CheckArguments(CallToolSchema(), arguments);
      !status.ok()) {
    return ToolError(WrongArguments(kCallTool, status, CallToolSchema()));
  }
  const std::string server = mcp::StringOf(arguments, "server");
  const std::string name = mcp::StringOf(arguments, "name");
  auto tools = gateway->tools();
  auto tool = tools->Resolve(server, name);
  if (!tool.ok()) {
    // Its server may still be starting.
    tools = gateway->AwaitTools(options.cancel);
    tool = tools->Resolve(server, name);
  }
  if (!tool.ok()) {
    std::string text = tool.status().message();
    if (!server.empty() && gateway->FindUpstream(server) == nullptr) {
      text = "There is no server '" + server +
             "'; there are: " + ServerNames(*gateway);
    } else if (const Json missing = MissingServers(*gateway);
               !missing.empty()) {
      text += ". Not there at the moment: " + DumpJson(missing);
    }
    return ToolError(text);
  }
  Json inner =
      arguments.contains("arguments") ? arguments["arguments"] : Json::object();
  mcp::RpcResponse response =
      CallServer(gateway, **tool, std::move(inner), handed_on, options);
  if (!response.error) return std::move(response.result);
  std::string text = "MCP server '" + (*tool)->server() +
                     "' refused the call of '" + (*tool)->schema().name +
                     "' with error " + std::to_string(response.error->code) +
                     ": " + response.error->message;
  if (!response.error->data.is_null()) {
    text += " " + DumpJson(response.error->data);
  }
  return ToolError(text);
}

}  // namespace nexus::gateway
