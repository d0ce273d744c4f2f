// ChatResult to the Responses API's objects and events.
#include "nexus/serve/call_ids.h"
#include "nexus/serve/responses_api.h"

namespace nexus::serve {
namespace {

Json TextPart(std::string text) {
  return {{"type", "output_text"},
          {"text", std::move(text)},
          {"annotations", Json::array()},
          {"logprobs", Json::array()}};
}

bool IsCall(const Json& item) { return item["type"] == "function_call"; }

Json UsageJson(const ChatUsage& usage) {
  return {{"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"output_tokens", usage.completion_tokens},
          {"output_tokens_details", {{"reasoning_tokens", 0}}},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens}};
}

bool IsCutOff(const ChatResult& result) {
  return result.finish_reason == "length";
}

}  // namespace

Json ResponseEvents::Response(std::string_view status) const {
  Json json = {{"id", head_.id},
               {"object", "response"},
               {"created_at", head_.created},
               {"status", std::string(status)},
               {"background", false},
               {"error", nullptr},
               {"incomplete_details", nullptr},
               {"model", head_.model},
               {"output", output_},
               {"usage", nullptr}};
  json.update(echo_);
  return json;
}

Json ResponseEvents::FinishedResponse(const ChatResult& result) const {
  Json json = Response(IsCutOff(result) ? "incomplete" : "completed");
  if (IsCutOff(result)) {
    json["incomplete_details"] = {{"reason", "max_output_tokens"}};
  }
  json["usage"] = UsageJson(result.usage);
  if (!result.report.is_null()) json["nexus"] = result.report;
  return json;
}

std::string ResponseEvents::Emit(const char* type, Json fields) {
  Json data = {{"type", type}, {"sequence_number", sequence_++}};
  data.update(fields);
  return std::string("event: ") + type + "\ndata: " + DumpJson(data) + "\n\n";
}

std::string ResponseEvents::EmitAtItem(const char* type, Json fields) {
  Json data = {{"item_id", output_.back()["id"]},
               {"output_index", output_.size() - 1}};
  if (!IsCall(output_.back())) data["content_index"] = 0;
  data.update(fields);
  return Emit(type, std::move(data));
}

std::string ResponseEvents::Begin() {
  if (has_begun_) return {};
  has_begun_ = true;
  const Json response = {{"response", Response("in_progress")}};
  std::string events = Emit("response.created", response);
  return events + Emit("response.in_progress", response);
}

std::string ResponseEvents::Close(std::string_view status) {
  if (!is_open_) return {};
  is_open_ = false;
  Json& item = output_.back();
  item["status"] = std::string(status);
  std::string events;
  if (IsCall(item)) {
    events =
        EmitAtItem("response.function_call_arguments.done",
                   {{"name", item["name"]}, {"arguments", item["arguments"]}});
  } else {
    const Json& part = item["content"][0];
    events =
        EmitAtItem("response.output_text.done",
                   {{"text", part["text"]}, {"logprobs", part["logprobs"]}});
    events += EmitAtItem("response.content_part.done", {{"part", part}});
  }
  return events + Emit("response.output_item.done",
                       {{"output_index", output_.size() - 1}, {"item", item}});
}

std::string ResponseEvents::Text(std::string_view delta, const Json& logprobs) {
  std::string events = Begin();
  if (!is_open_ || IsCall(output_.back())) {
    events += Close("completed");
    output_.push_back({{"id", NewId("msg_")},
                       {"type", "message"},
                       {"status", "in_progress"},
                       {"role", "assistant"},
                       {"content", Json::array()}});
    is_open_ = true;
    events +=
        Emit("response.output_item.added",
             {{"output_index", output_.size() - 1}, {"item", output_.back()}});
    output_.back()["content"].push_back(TextPart(""));
    events +=
        EmitAtItem("response.content_part.added", {{"part", TextPart("")}});
  }
  if (delta.empty()) return events;
  Json& part = output_.back()["content"][0];
  part["text"].get_ref<std::string&>() += delta;
  for (const Json& entry : logprobs) part["logprobs"].push_back(entry);
  return events + EmitAtItem("response.output_text.delta",
                             {{"delta", std::string(delta)},
                              {"logprobs",
                               logprobs.is_null() ? Json::array() : logprobs}});
}

std::string ResponseEvents::CallBegin(const llm::ToolCall& call) {
  std::string events = Begin() + Close("completed");
  output_.push_back({{"id", NewId("fc_")},
                     {"type", "function_call"},
                     {"status", "in_progress"},
                     {"call_id", call.id},
                     {"name", call.name},
                     {"arguments", ""}});
  if (const auto known = namespaced_.find(call.name);
      known != namespaced_.end()) {
    output_.back()["namespace"] = known->second.space;
    output_.back()["name"] = known->second.name;
  }
  is_open_ = true;
  return events +
         Emit("response.output_item.added",
              {{"output_index", output_.size() - 1}, {"item", output_.back()}});
}

std::string ResponseEvents::CallArguments(std::string_view delta) {
  output_.back()["arguments"].get_ref<std::string&>() += delta;
  return EmitAtItem("response.function_call_arguments.delta",
                    {{"delta", std::string(delta)}});
}

std::string ResponseEvents::End(const ChatResult& result) {
  std::string events;
  // An answer without a word is a message too.
  if (output_.empty()) events = Text("", nullptr);
  return events + Close(IsCutOff(result) ? "incomplete" : "completed");
}

std::string ResponseEvents::Finish(const ChatResult& result) {
  std::string events = Begin();
  events += End(result);
  return events +
         Emit(IsCutOff(result) ? "response.incomplete" : "response.completed",
              {{"response", FinishedResponse(result)}});
}

std::string ResponseEvents::Fail(const ApiError& error) {
  std::string events = Begin() + Close("incomplete");
  Json response = Response("failed");
  response["error"] = {
      {"code", error.code.empty() ? "server_error" : error.code},
      {"message", error.message}};
  return events + Emit("response.failed", {{"response", std::move(response)}});
}

Json ResponseEvents::Whole(const ChatResult& result) {
  has_begun_ = true;  // nobody reads the events
  if (!result.content.empty()) Text(result.content, result.logprobs);
  for (const llm::ToolCall& call : result.tool_calls) {
    CallBegin(call);
    CallArguments(call.arguments);
  }
  End(result);
  return FinishedResponse(result);
}

}  // namespace nexus::serve
