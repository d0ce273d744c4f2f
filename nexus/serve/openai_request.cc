// JSON to ChatRequest.
#include <algorithm>
#include <map>
#include <utility>

#include "nexus/serve/field_reader.h"
#include "nexus/serve/openai_chat.h"
#include "nexus/serve/request_fields.h"

namespace nexus::serve {
namespace {

using llm::ChatMessage;

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
    ReadCall(*function, function_path, read, &call);
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
    ReadTextParts(item, path, "content", {"text", "refusal"}, read,
                  &message.content);
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
  ReadToolList(body, read, &request->tools);
  const Json* choice = read->Find(body, "tool_choice");
  if (choice == nullptr) return;
  if (choice->is_string()) {
    ReadToolChoiceName(*choice, "tool_choice", read, request);
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

void ReadLogprobs(const Json& body, FieldReader* read, ChatRequest* request) {
  bool wanted = false;
  read->Read(body, "", "logprobs", &wanted);
  const int count = ReadTopLogprobs(body, read);
  if (wanted) {
    request->top_logprobs = count;
  } else if (count > 0) {
    read->Fail("top_logprobs", "needs `logprobs` to be true");
  }
}

void ReadChatOnly(const Json& body, FieldReader* read, ChatRequest* request) {
  ReadTokenLimit(body, "max_tokens", read, request);
  ReadTokenLimit(body, "max_completion_tokens", read, request);
  read->RefuseUnless(body, "n", 1, "only 1 is supported");
  ReadLogprobs(body, read, request);
  // Either is kept to: there is one call at most.
  bool parallel_calls = true;
  read->Read(body, "", "parallel_tool_calls", &parallel_calls);
  read->RefuseUnless(body, "presence_penalty", 0, "isn't supported");
  read->RefuseUnless(body, "frequency_penalty", 0, "isn't supported");
  read->RefuseUnless(body, "logit_bias", Json::object(), "isn't supported");
  read->RefuseUnless(body, "audio", nullptr, "isn't supported");
  read->RefuseUnless(body, "modalities", Json::array({"text"}),
                     "only text is supported");
}

}  // namespace

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
  ReadChatOnly(body, &read, request);
  ReadStop(body, &read, &request->stop);
  ReadFormat(body, &read, request);
  ReadNexus(body, &read, request);
  return read.TakeError();
}

}  // namespace nexus::serve
