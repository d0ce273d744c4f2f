// Results as JSON, whole and in chunks.
#include <utility>

#include "nexus/serve/openai_chat.h"

namespace nexus::serve {
namespace {

Json UsageJson(const ChatUsage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.completion_tokens},
          {"total_tokens", usage.prompt_tokens + usage.completion_tokens},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}}};
}

std::string Event(const Json& data) {
  return "data: " + DumpJson(data) + "\n\n";
}

// The field of that name; null stays null.
Json LogprobsField(const Json& logprobs) {
  if (logprobs.is_null()) return nullptr;
  return {{"content", logprobs}, {"refusal", nullptr}};
}

}  // namespace

Json ChatCompletionJson(const ChatHead& head, const ChatResult& result) {
  Json message = {{"role", "assistant"}};
  if (result.tool_calls.empty()) {
    message["content"] = result.content;
  } else {
    message["content"] =
        result.content.empty() ? Json(nullptr) : Json(result.content);
    Json calls = Json::array();
    for (const llm::ToolCall& call : result.tool_calls) {
      calls.push_back(
          {{"id", call.id},
           {"type", "function"},
           {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
    }
    message["tool_calls"] = std::move(calls);
  }
  message["refusal"] = nullptr;
  Json json = {
      {"id", head.id},
      {"object", "chat.completion"},
      {"created", head.created},
      {"model", head.model},
      {"choices", Json::array({{{"index", 0},
                                {"message", std::move(message)},
                                {"logprobs", LogprobsField(result.logprobs)},
                                {"finish_reason", result.finish_reason}}})},
      {"usage", UsageJson(result.usage)}};
  if (!result.report.is_null()) json["nexus"] = result.report;
  return json;
}

Json ChatChunks::Frame() const {
  Json json = {{"id", head_.id},
               {"object", "chat.completion.chunk"},
               {"created", head_.created},
               {"model", head_.model},
               {"choices", Json::array()}};
  if (include_usage_) json["usage"] = nullptr;
  return json;
}

std::string ChatChunks::Chunk(Json delta, const Json& logprobs) {
  // The first delta says who speaks.
  if (!std::exchange(has_role_, true)) {
    Json first = {{"role", "assistant"}};
    if (!delta.contains("content")) first["content"] = nullptr;
    first.update(delta);
    delta = std::move(first);
  }
  Json json = Frame();
  json["choices"].push_back({{"index", 0},
                             {"delta", std::move(delta)},
                             {"logprobs", LogprobsField(logprobs)},
                             {"finish_reason", nullptr}});
  return Event(json);
}

std::string ChatChunks::Text(std::string_view delta, const Json& logprobs) {
  return Chunk({{"content", std::string(delta)}}, logprobs);
}

std::string ChatChunks::CallBegin(const llm::ToolCall& call) {
  const int index = calls_++;
  return Chunk({{"tool_calls",
                 Json::array({{{"index", index},
                               {"id", call.id},
                               {"type", "function"},
                               {"function",
                                {{"name", call.name}, {"arguments", ""}}}}})}});
}

std::string ChatChunks::CallArguments(std::string_view delta) {
  return Chunk(
      {{"tool_calls",
        Json::array({{{"index", calls_ - 1},
                      {"function", {{"arguments", std::string(delta)}}}}})}});
}

std::string ChatChunks::Finish(const ChatResult& result) {
  std::string events;
  if (!has_role_) events += Text("", nullptr);
  Json last = Frame();
  last["choices"].push_back({{"index", 0},
                             {"delta", Json::object()},
                             {"logprobs", nullptr},
                             {"finish_reason", result.finish_reason}});
  if (!result.report.is_null()) last["nexus"] = result.report;
  events += Event(last);
  if (include_usage_) {
    Json usage = Frame();
    usage["usage"] = UsageJson(result.usage);
    events += Event(usage);
  }
  return events + "data: [DONE]\n\n";
}

std::string ChatChunks::Fail(const ApiError& error) {
  return Event(ToJson(error));
}

}  // namespace nexus::serve
