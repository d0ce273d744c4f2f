#include "nexus/serve/request_fields.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "nexus/serve/logprobs_json.h"

namespace nexus::serve {

void ReadTextParts(const Json& object, std::string_view path, const char* key,
                   std::initializer_list<std::string_view> types,
                   FieldReader* read, std::string* text) {
  const Json* found = read->Find(object, key);
  if (found == nullptr) return;
  const std::string where = FieldPath(path, key);
  if (found->is_string()) {
    *text = found->get<std::string>();
    return;
  }
  if (!found->is_array()) {
    read->Fail(where, "expected a string or an array of parts, found " +
                          std::string(found->type_name()));
    return;
  }
  for (size_t i = 0; i < found->size() && read->ok(); ++i) {
    const Json& part = (*found)[i];
    const std::string part_path = ItemPath(where, i);
    if (!part.is_object()) {
      read->Fail(part_path, "expected an object");
      return;
    }
    std::string type;
    read->Read(part, part_path, "type", &type);
    if (std::find(types.begin(), types.end(), type) == types.end()) {
      read->Fail(FieldPath(part_path, "type"),
                 "only text is understood here, found '" + type + "'");
      return;
    }
    std::string piece;
    read->Read(part, part_path, type == "refusal" ? "refusal" : "text", &piece);
    *text += piece;
  }
}

void ReadCall(const Json& function, std::string_view path, FieldReader* read,
              llm::ToolCall* call) {
  read->Read(function, path, "name", &call->name);
  read->Read(function, path, "arguments", &call->arguments);
  if (call->name.empty()) read->Fail(FieldPath(path, "name"), "is missing");
  // Templates write the arguments as JSON: anything else would end up as a call
  // that no model was trained on.
  if (call->arguments.empty()) call->arguments = "{}";
  const auto arguments = ParseJson(call->arguments, "arguments");
  if (!arguments.ok() || !arguments->is_object()) {
    read->Fail(FieldPath(path, "arguments"),
               "expected the text of a JSON object");
  }
}

void ReadTool(const Json& value, const std::string& path, FieldReader* read,
              std::vector<schema::ToolSchema>* tools) {
  auto tool = schema::ParseTool(value, "", path);
  if (tool.ok()) {
    tools->push_back(*std::move(tool));
    return;
  }
  ApiError error;
  error.message = tool.status().message();
  error.param = path;
  read->Fail(std::move(error));
}

void ReadToolList(const Json& body, FieldReader* read,
                  std::vector<schema::ToolSchema>* tools) {
  const Json* found = read->FindArray(body, "", "tools", kMaxTools);
  if (found == nullptr) return;
  for (size_t i = 0; i < found->size() && read->ok(); ++i) {
    ReadTool((*found)[i], ItemPath("tools", i), read, tools);
  }
}

void ReadToolChoiceName(const Json& choice, std::string_view path,
                        FieldReader* read, ChatRequest* request) {
  const std::string name = choice.is_string() ? choice.get<std::string>() : "";
  if (name == "none") {
    request->tool_choice = ToolChoice::kNone;
  } else if (name == "required") {
    request->tool_choice = ToolChoice::kRequired;
    if (request->tools.empty()) {
      read->Fail(std::string(path), "'required' needs `tools`");
    }
  } else if (name != "auto") {
    read->Fail(
        std::string(path),
        "expected auto, none, required or a function, found '" + name + "'");
  }
}

void ReadSampling(const Json& body, FieldReader* read, ChatRequest* request) {
  read->ReadNumber(body, "temperature", {0, 2}, &request->temperature);
  read->ReadNumber(body, "top_p", {0, 1}, &request->top_p);
  std::optional<int64_t> seed;
  // Seeds are 64 bits wide elsewhere; ours are the lower half.
  read->ReadInteger(body, "seed", {-9e18, 9e18}, &seed);
  if (seed.has_value()) request->seed = static_cast<uint32_t>(*seed);
}

int ReadTopLogprobs(const Json& body, FieldReader* read) {
  std::optional<int64_t> count;
  read->ReadInteger(body, "top_logprobs", {0, kMaxTopLogprobs}, &count);
  return static_cast<int>(count.value_or(0));
}

void ReadTokenLimit(const Json& body, const char* key, FieldReader* read,
                    ChatRequest* request) {
  std::optional<int64_t> limit;
  read->ReadInteger(body, key, {1, 1 << 24}, &limit);
  if (limit.has_value()) request->max_tokens = static_cast<int>(*limit);
}

void ReadNexus(const Json& body, FieldReader* read, ChatRequest* request) {
  const Json* found = read->Find(body, "nexus");
  if (found == nullptr) return;
  if (found->is_boolean()) {
    request->wants_report = found->get<bool>();
    return;
  }
  if (!found->is_object()) {
    read->Fail("nexus", "expected true or an object");
    return;
  }
  request->wants_report = true;
  std::string mode;
  read->Read(*found, "nexus", "tools", &mode);
  if (mode.empty()) return;
  request->tools_mode = ParseToolsMode(mode);
  if (!request->tools_mode.has_value()) {
    read->Fail("nexus.tools",
               "expected route, pin or hybrid, found '" + mode + "'");
  }
}

const schema::ToolSchema* FindTool(const ChatRequest& request,
                                   std::string_view name) {
  for (const schema::ToolSchema& tool : request.tools) {
    if (tool.name == name) return &tool;
  }
  return nullptr;
}

std::string_view ToolsModeName(ToolsMode mode) {
  switch (mode) {
    case ToolsMode::kRoute:
      return "route";
    case ToolsMode::kPin:
      return "pin";
    case ToolsMode::kHybrid:
      return "hybrid";
  }
  return "route";
}

std::optional<ToolsMode> ParseToolsMode(std::string_view name) {
  if (name == "route") return ToolsMode::kRoute;
  if (name == "pin") return ToolsMode::kPin;
  if (name == "hybrid") return ToolsMode::kHybrid;
  return std::nullopt;
}

}  // namespace nexus::serve
