// JSON to ChatRequest.
#include <algorithm>
#include <map>
#include <utility>

#include "nexus/serve/field_reader.h"
#include "nexus/serve/openai_chat.h"

namespace nexus::serve {
namespace {

using llm::ChatMessage;

// A string, null, or a list of text parts.
void ReadContent(const Json& message, const std::string& path,
                 FieldReader* read, std::string* content) {
  const Json* found = read->Find(message, "content");
  if (found == nullptr) return;
  const std::string where = FieldPath(path, "content");
  if (found->is_string()) {
    *content = found->get<std::string>();
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
    if (type != "text" && type != "refusal") {
      read->Fail(FieldPath(part_path, "type"),
                 "only text is understood here, found '" + type + "'");
      return;
    }
    std::string text;
    read->Read(part, part_path, type.c_str(), &text);
    *content += text;
  }
}

void ReadToolCalls(const Json& message, const std::string& path,
                   FieldReader* read, std::vector<llm::ToolCall>* calls) {
  const Json* found =
      read->FindArray(message, path, "tool_calls", kMaxMessages);
  if (found == nullptr) return;
  for (size_t i = 0; i < found->size() && read->ok(); ++i) {
    const Json& item = (*found)[i];
    const std::string item_path = ItemPath(FieldPath(path, "tool_calls"), i);
    if (!item.is_object()) {
      read->Fail(item_path, "expected an object");
      return;
    }
    llm::ToolCall call;
    read->Read(item, item_path, "id", &call.id);
    const Json* function = read->FindObject(item, item_path, "function");
    if (function == nullptr) {
      read->Fail(FieldPath(item_path, "function"), "is missing");
      return;
    }
    const std::string function_path = FieldPath(item_path, "function");
    read->Read(*function, function_path, "name", &call.name);
    read->Read(*function, function_path, "arguments", &call.arguments);
    if (call.name.empty()) {
      read->Fail(FieldPath(function_path, "name"), "is missing");
    }
    // Templates write the arguments as JSON: anything else would end up as a
    // call that no model was trained on.
    if (call.arguments.empty()) call.arguments = "{}";
    const auto arguments = ParseJson(call.arguments, "arguments");
    if (!arguments.ok() || !arguments->is_object()) {
      read->Fail(FieldPath(function_path, "arguments"),
                 "expected the text of a JSON object");
    }
    calls->push_back(std::move(call));
  }
}

void ReadMessages(const Json& body, FieldReader* read,
                  std::vector<ChatMessage>* messages) {
  const Json* found = read->FindArray(body, "", "messages", kMaxMessages);
  if (found == nullptr || found->empty()) {
    read->Fail("messages", "expected at least one message");
    return;
  }
  std::map<std::string, std::string> tool_of_call;
  for (size_t i = 0; i < found->size() && read->ok(); ++i) {
    const Json& item = (*found)[i];
    const std::string path = ItemPath("messages", i);
    if (!item.is_object()) {
      read->Fail(path,
                 "expected an object, found " + std::string(item.type_name()));
      return;
    }
    ChatMessage message;
    read->Read(item, path, "role", &message.role);
    if (message.role == "developer") message.role = "system";
    ReadContent(item, path, read, &message.content);
    if (message.role != "assistant" && read->Find(item, "content") == nullptr) {
      read->Fail(FieldPath(path, "content"), "is missing");
    }
    if (message.role == "assistant") {
      ReadToolCalls(item, path, read, &message.tool_calls);
      for (const llm::ToolCall& call : message.tool_calls) {
        tool_of_call[call.id] = call.name;
      }
    } else if (message.role == "tool") {
      read->Read(item, path, "tool_call_id", &message.tool_call_id);
      const auto call = tool_of_call.find(message.tool_call_id);
      if (call == tool_of_call.end()) {
        read->Fail(FieldPath(path, "tool_call_id"),
                   "'" + message.tool_call_id +
                       "' is the id of no tool call before it");
      } else {
        message.tool_name = call->second;
      }
    } else if (message.role != "system" && message.role != "user") {
      read->Fail(FieldPath(path, "role"),
                 "expected system, developer, user, assistant or tool, found "
                 "'" +
                     message.role + "'");
    }
    messages->push_back(std::move(message));
  }
}

void ReadTools(const Json& body, FieldReader* read, ChatRequest* request) {
  read->RefuseUnless(body, "functions", Json::array(),
                     "is deprecated by OpenAI; send `tools`");
  if (const Json* tools = read->FindArray(body, "", "tools", kMaxTools)) {
    for (size_t i = 0; i < tools->size() && read->ok(); ++i) {
      const std::string path = ItemPath("tools", i);
      auto tool = schema::ParseTool((*tools)[i], "", path);
      if (!tool.ok()) {
        ApiError error;
        error.message = tool.status().message();
        error.param = path;
        read->Fail(std::move(error));
        return;
      }
      request->tools.push_back(*std::move(tool));
    }
  }
  const Json* choice = read->Find(body, "tool_choice");
  if (choice == nullptr) return;
  if (choice->is_string()) {
    const auto name = choice->get<std::string>();
    if (name == "none") {
      request->tool_choice = ToolChoice::kNone;
    } else if (name == "required") {
      request->tool_choice = ToolChoice::kRequired;
    } else if (name != "auto") {
      read->Fail(
          "tool_choice",
          "expected auto, none, required or a function, found '" + name + "'");
    }
  } else if (choice->is_object()) {
    const Json* function = read->FindObject(*choice, "tool_choice", "function");
    if (function != nullptr) {
      read->Read(*function, "tool_choice.function", "name",
                 &request->named_tool);
    }
    request->tool_choice = ToolChoice::kNamed;
    if (FindTool(*request, request->named_tool) == nullptr) {
      read->Fail("tool_choice.function.name",
                 "'" + request->named_tool + "' is none of `tools`");
    }
  } else {
    read->Fail("tool_choice", "expected a string or an object");
  }
  if (request->tool_choice == ToolChoice::kRequired && request->tools.empty()) {
    read->Fail("tool_choice", "'required' needs `tools`");
  }
}

void ReadStop(const Json& body, FieldReader* read,
              std::vector<std::string>* stop) {
  const Json* found = read->Find(body, "stop");
  if (found == nullptr) return;
  if (found->is_string()) {
    stop->push_back(found->get<std::string>());
  } else if (found->is_array() && found->size() <= kMaxStops) {
    for (const Json& item : *found) {
      if (!item.is_string()) {
        read->Fail("stop", "expected strings");
        return;
      }
      stop->push_back(item.get<std::string>());
    }
  } else {
    read->Fail("stop", "expected a string or at most " +
                           std::to_string(kMaxStops) + " of them");
  }
  std::erase(*stop, "");
}

void ReadFormat(const Json& body, FieldReader* read, ChatRequest* request) {
  const Json* format = read->FindObject(body, "", "response_format");
  if (format == nullptr) return;
  std::string type;
  read->Read(*format, "response_format", "type", &type);
  if (type == "json_object") {
    request->format = ResponseFormat::kJsonObject;
  } else if (type == "json_schema") {
    request->format = ResponseFormat::kJsonSchema;
    const Json* outer =
        read->FindObject(*format, "response_format", "json_schema");
    const Json* schema =
        outer == nullptr
            ? nullptr
            : read->FindObject(*outer, "response_format.json_schema", "schema");
    if (schema == nullptr) {
      read->Fail("response_format.json_schema.schema", "is missing");
      return;
    }
    request->format_schema = *schema;
  } else if (type != "text") {
    read->Fail(
        "response_format.type",
        "expected text, json_object or json_schema, found '" + type + "'");
  }
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
    read->Fail("nexus.tools", "expected route or pin, found '" + mode + "'");
  }
}

void ReadSampling(const Json& body, FieldReader* read, ChatRequest* request) {
  read->ReadNumber(body, "temperature", {0, 2}, &request->temperature);
  read->ReadNumber(body, "top_p", {0, 1}, &request->top_p);
  std::optional<int64_t> seed;
  // Seeds are 64 bits wide elsewhere; ours are the lower half.
  read->ReadInteger(body, "seed", {-9e18, 9e18}, &seed);
  if (seed.has_value()) request->seed = static_cast<uint32_t>(*seed);
  std::optional<int64_t> limit;
  constexpr FieldReader::Range kTokens = {1, 1 << 24};
  read->ReadInteger(body, "max_tokens", kTokens, &limit);
  read->ReadInteger(body, "max_completion_tokens", kTokens, &limit);
  if (limit.has_value()) request->max_tokens = static_cast<int>(*limit);

  read->RefuseUnless(body, "n", 1, "only 1 is supported");
  read->RefuseUnless(body, "logprobs", false, "isn't supported");
  read->RefuseUnless(body, "top_logprobs", 0, "isn't supported");
  read->RefuseUnless(body, "presence_penalty", 0, "isn't supported");
  read->RefuseUnless(body, "frequency_penalty", 0, "isn't supported");
  read->RefuseUnless(body, "logit_bias", Json::object(), "isn't supported");
  read->RefuseUnless(body, "audio", nullptr, "isn't supported");
  read->RefuseUnless(body, "modalities", Json::array({"text"}),
                     "only text is supported");
}

}  // namespace

const schema::ToolSchema* FindTool(const ChatRequest& request,
                                   std::string_view name) {
  for (const schema::ToolSchema& tool : request.tools) {
    if (tool.name == name) return &tool;
  }
  return nullptr;
}

std::string_view ToolsModeName(ToolsMode mode) {
  return mode == ToolsMode::kPin ? "pin" : "route";
}

std::optional<ToolsMode> ParseToolsMode(std::string_view name) {
  if (name == "route") return ToolsMode::kRoute;
  if (name == "pin") return ToolsMode::kPin;
  return std::nullopt;
}

std::optional<ApiError> ParseChatRequest(const Json& body,
                                         ChatRequest* request) {
  if (!body.is_object()) {
    ApiError error;
    error.message = "the body must be a JSON object";
    return error;
  }
  FieldReader read;
  read.Read(body, "", "model", &request->model);
  if (read.ok() && request->model.empty()) read.Fail("model", "is missing");
  ReadMessages(body, &read, &request->messages);
  ReadTools(body, &read, request);
  read.Read(body, "", "stream", &request->stream);
  if (const Json* options = read.FindObject(body, "", "stream_options")) {
    read.Read(*options, "stream_options", "include_usage",
              &request->include_usage);
  }
  ReadSampling(body, &read, request);
  ReadStop(body, &read, &request->stop);
  ReadFormat(body, &read, request);
  ReadNexus(body, &read, request);
  return read.TakeError();
}

}  // namespace nexus::serve
