// JSON of the Responses API to ChatRequest.
#include <algorithm>
#include <map>
#include <utility>

#include "nexus/serve/request_fields.h"
#include "nexus/serve/responses_api.h"
#include "nexus/serve/responses_tools.h"

namespace nexus::serve {
namespace {

using llm::ChatMessage;

// Items of `input`, as messages.
class InputReader {
 public:
  InputReader(FieldReader* read, std::vector<ChatMessage>* messages)
      : read_(read), messages_(messages) {}

  void Add(const Json& item, const std::string& path) {
    if (!item.is_object()) {
      read_->Fail(path,
                  "expected an object, found " + std::string(item.type_name()));
      return;
    }
    std::string type = item.contains("role") ? "message" : "";
    read_->Read(item, path, "type", &type);
    if (type == "message") {
      AddMessage(item, path);
    } else if (type == "function_call") {
      AddCall(item, path);
    } else if (type == "function_call_output") {
      AddOutput(item, path);
    } else if (type == "item_reference") {
      read_->Fail(path,
                  "responses aren't stored here: send the item instead of a "
                  "reference to it");
    } else if (type != "reasoning") {
      // What another model thought is left out; templates drop it too.
      read_->Fail(FieldPath(path, "type"),
                  "expected message, function_call, function_call_output or "
                  "reasoning, found '" +
                      type + "'");
    }
  }

 private:
  void AddMessage(const Json& item, const std::string& path) {
    ChatMessage message;
    read_->Read(item, path, "role", &message.role);
    if (message.role == "developer") message.role = "system";
    if (message.role != "system" && message.role != "user" &&
        message.role != "assistant") {
      read_->Fail(FieldPath(path, "role"),
                  "expected system, developer, user or assistant, found '" +
                      message.role + "'");
    }
    if (read_->Find(item, "content") == nullptr) {
      read_->Fail(FieldPath(path, "content"), "is missing");
    }
    ReadTextParts(item, path, "content",
                  {"input_text", "output_text", "text", "refusal"}, read_,
                  &message.content);
    // `instructions` and a developer's message are one turn: templates take a
    // single system turn.
    if (message.role == "system" && messages_->size() == 1 &&
        messages_->front().role == "system") {
      messages_->front().content += "\n\n" + message.content;
      return;
    }
    messages_->push_back(std::move(message));
  }

  // Calls of one turn, and words before them, are one message.
  void AddCall(const Json& item, const std::string& path) {
    llm::ToolCall call;
    read_->Read(item, path, "call_id", &call.id);
    if (call.id.empty()) {
      read_->Fail(FieldPath(path, "call_id"), "is missing");
    }
    ReadCall(item, path, read_, &call);
    std::string space;
    read_->Read(item, path, "namespace", &space);
    call.name = NameInNamespace(space, call.name);
    tool_of_call_[call.id] = call.name;
    if (messages_->empty() || messages_->back().role != "assistant") {
      messages_->emplace_back();
      messages_->back().role = "assistant";
    }
    messages_->back().tool_calls.push_back(std::move(call));
  }

  void AddOutput(const Json& item, const std::string& path) {
    ChatMessage message;
    message.role = "tool";
    read_->Read(item, path, "call_id", &message.tool_call_id);
    const auto call = tool_of_call_.find(message.tool_call_id);
    if (call == tool_of_call_.end()) {
      read_->Fail(FieldPath(path, "call_id"),
                  "'" + message.tool_call_id +
                      "' is the call_id of no function_call before it");
    } else {
      message.tool_name = call->second;
    }
    if (read_->Find(item, "output") == nullptr) {
      read_->Fail(FieldPath(path, "output"), "is missing");
    }
    ReadTextParts(item, path, "output", {"input_text", "output_text", "text"},
                  read_, &message.content);
    messages_->push_back(std::move(message));
  }

  FieldReader* const read_;
  std::vector<ChatMessage>* const messages_;
  std::map<std::string, std::string> tool_of_call_;
};

void ReadInput(const Json& body, FieldReader* read,
               std::vector<ChatMessage>* messages) {
  std::string instructions;
  read->Read(body, "", "instructions", &instructions);
  if (!instructions.empty()) {
    messages->emplace_back();
    messages->back().role = "system";
    messages->back().content = std::move(instructions);
  }
  const size_t before = messages->size();
  const Json* input = read->Find(body, "input");
  if (input != nullptr && input->is_string()) {
    messages->emplace_back();
    messages->back().role = "user";
    messages->back().content = input->get<std::string>();
    return;
  }
  if (input != nullptr)
    input = read->FindArray(body, "", "input", kMaxMessages);
  InputReader items(read, messages);
  for (size_t i = 0; input != nullptr && i < input->size() && read->ok(); ++i) {
    items.Add((*input)[i], ItemPath("input", i));
  }
  // A lone developer's message joins the instructions and adds none.
  const bool has_items = input != nullptr && !input->empty();
  if (messages->empty() || (messages->size() == before && !has_items)) {
    read->Fail("input", "expected text or at least one item");
  }
}

void ReadText(const Json& body, FieldReader* read, ChatRequest* request) {
  const Json* text = read->FindObject(body, "", "text");
  if (text == nullptr) return;
  const Json* format = read->FindObject(*text, "text", "format");
  if (format == nullptr) return;
  std::string type;
  read->Read(*format, "text.format", "type", &type);
  if (type == "json_object") {
    request->format = ResponseFormat::kJsonObject;
  } else if (type == "json_schema") {
    request->format = ResponseFormat::kJsonSchema;
    const Json* schema = read->FindObject(*format, "text.format", "schema");
    if (schema == nullptr) {
      read->Fail("text.format.schema", "is missing");
      return;
    }
    request->format_schema = *schema;
  } else if (type != "text") {
    read->Fail(
        "text.format.type",
        "expected text, json_object or json_schema, found '" + type + "'");
  }
}

void Refuse(const Json& body, FieldReader* read) {
  constexpr const char* kStateless =
      "responses aren't stored here: send the whole conversation as `input`, "
      "with `store` false or left out";
  read->RefuseUnless(body, "store", false, kStateless);
  read->RefuseUnless(body, "previous_response_id", nullptr, kStateless);
  read->RefuseUnless(body, "conversation", nullptr, kStateless);
  read->RefuseUnless(body, "prompt", nullptr,
                     "there are no stored prompts here: send `input`");
  read->RefuseUnless(body, "background", false, "isn't supported");
  read->RefuseUnless(body, "truncation", "disabled",
                     "only 'disabled' is supported");
}

// Asked for by a count, or among what is to be included.
void ReadLogprobs(const Json& body, FieldReader* read, ChatRequest* request) {
  const Json* include = read->FindArray(body, "", "include", kMaxMessages);
  const bool included =
      include != nullptr &&
      std::find(include->begin(), include->end(),
                "message.output_text.logprobs") != include->end();
  const int count = ReadTopLogprobs(body, read);
  if (included || count > 0) request->top_logprobs = count;
}

Json Echo(const Json& body, const ChatRequest& request) {
  const auto given = [&](const char* key, Json otherwise) {
    const auto found = body.find(key);
    return found == body.end() || found->is_null() ? std::move(otherwise)
                                                   : *found;
  };
  return {{"instructions", given("instructions", nullptr)},
          {"max_output_tokens", given("max_output_tokens", nullptr)},
          {"parallel_tool_calls", given("parallel_tool_calls", true)},
          {"previous_response_id", nullptr},
          {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
          {"store", false},
          {"temperature", request.temperature},
          {"text", given("text", {{"format", {{"type", "text"}}}})},
          {"tool_choice", given("tool_choice", "auto")},
          {"tools", given("tools", Json::array())},
          {"top_logprobs", given("top_logprobs", 0)},
          {"top_p", request.top_p},
          {"truncation", "disabled"},
          {"metadata", given("metadata", Json::object())}};
}

}  // namespace

std::optional<ApiError> ParseResponsesRequest(const Json& body,
                                              ChatRequest* request,
                                              Json* echo) {
  if (!body.is_object()) {
    ApiError error;
    error.message = "the body must be a JSON object";
    return error;
  }
  FieldReader read;
  read.Read(body, "", "model", &request->model);
  if (read.ok() && request->model.empty()) read.Fail("model", "is missing");
  Refuse(body, &read);
  ReadInput(body, &read, &request->messages);
  ReadResponsesTools(body, &read, request);
  read.Read(body, "", "stream", &request->stream);
  ReadSampling(body, &read, request);
  ReadTokenLimit(body, "max_output_tokens", &read, request);
  ReadLogprobs(body, &read, request);
  ReadText(body, &read, request);
  ReadNexus(body, &read, request);
  if (read.ok()) *echo = Echo(body, *request);
  return read.TakeError();
}

}  // namespace nexus::serve
