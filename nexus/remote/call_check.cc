#include "nexus/remote/call_check.h"

#include <algorithm>
#include <utility>

#include "nexus/schema/ir_signature.h"

namespace nexus::remote {
namespace {

// A wrong call is quoted to its author, but not without end.
constexpr size_t kMaxQuotedBytes = 2000;
constexpr size_t kMaxNamesListed = 20;

// No text at all means no arguments, to servers whose tool has none.
Result<Json> ParseArguments(const RemoteCall& call) {
  if (call.arguments.empty()) return Json(Json::object());
  return ParseJson(call.arguments, "arguments");
}

}  // namespace

Status CallChecker::Check(const RemoteCall& call) {
  const auto tool = std::find_if(
      tools_.begin(), tools_.end(),
      [&](const schema::ToolSchema& each) { return each.name == call.name; });
  if (tool == tools_.end()) {
    std::string names;
    for (size_t i = 0; i < std::min(tools_.size(), kMaxNamesListed); ++i) {
      names += (i == 0 ? "" : ", ") + tools_[i].name;
    }
    return InvalidArgumentError("there is no tool '" +
                                call.name.substr(0, kMaxQuotedBytes) +
                                "'; there are: " + names);
  }
  const auto arguments = ParseArguments(call);
  if (!arguments.ok())
    return InvalidArgumentError(arguments.status().message());
  if (!arguments->is_object()) {
    return InvalidArgumentError("the arguments must be a JSON object");
  }
  auto [found, is_new] = validators_.try_emplace(call.name);
  if (is_new) {
    auto made = schema::ArgumentValidator::Create(tool->parameters);
    if (made.ok()) found->second = *std::move(made);
  }
  if (found->second == nullptr) return Status::Ok();
  return found->second->Validate(*arguments);
}

Json RepairRequest(const Json& body, std::span<const WrongCall> wrong,
                   Json tools) {
  Json request = body;
  request.erase("stream_options");
  request.erase("n");
  request["stream"] = false;
  request["tools"] = std::move(tools);
  request["tool_choice"] = "required";
  Json calls = Json::array();
  Json results = Json::array();
  for (size_t i = 0; i < wrong.size(); ++i) {
    const RemoteCall& call = wrong[i].call;
    const std::string id =
        call.id.empty() ? "call_" + std::to_string(i) : call.id;
    std::string problem = "This call was not run. " + wrong[i].problem +
                          "\nCall the tool again with corrected arguments.";
    // Templates read the arguments as JSON: what isn't is told in words.
    const auto arguments = ParseArguments(call);
    const bool is_object = arguments.ok() && arguments->is_object();
    if (!is_object) {
      problem +=
          "\nThe arguments were: " + call.arguments.substr(0, kMaxQuotedBytes);
    }
    calls.push_back(
        {{"id", id},
         {"type", "function"},
         {"function",
          {{"name", call.name},
           {"arguments", is_object ? DumpJson(*arguments) : "{}"}}}});
    results.push_back(
        {{"role", "tool"}, {"tool_call_id", id}, {"content", problem}});
  }
  Json& messages = request["messages"];
  messages.push_back({{"role", "assistant"},
                      {"content", nullptr},
                      {"tool_calls", std::move(calls)}});
  for (Json& result : results) messages.push_back(std::move(result));
  return request;
}

Json ArgumentsRequest(const Json& body, const schema::ToolSchema& tool) {
  Json request = body;
  for (const char* key :
       {"tools", "tool_choice", "parallel_tool_calls", "stream_options", "n"}) {
    request.erase(key);
  }
  request["stream"] = false;
  request["response_format"] = {
      {"type", "json_schema"},
      {"json_schema", {{"name", "arguments"}, {"schema", tool.parameters}}}};
  const std::string wish =
      "Call this function now: " + schema::IrSignature(tool) +
      "\nAnswer with the JSON object of its arguments alone.";
  Json& messages = request["messages"];
  // Some templates refuse two user turns in a row.
  Json* last = messages.empty() ? nullptr : &messages.back();
  if (last != nullptr && last->is_object() &&
      last->value("role", Json()) == "user" && last->contains("content") &&
      (*last)["content"].is_string()) {
    (*last)["content"] = (*last)["content"].get<std::string>() + "\n\n" + wish;
  } else {
    messages.push_back({{"role", "user"}, {"content", wish}});
  }
  return request;
}

}  // namespace nexus::remote
