#include "nexus/remote/exchange.h"

#include <algorithm>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/base/hash.h"
#include "nexus/remote/call_check.h"
#include "nexus/remote/prefix_key.h"

namespace nexus::remote {
namespace {

// Both rounds were paid for.
void AddUsage(const Json& more, Json* body) {
  if (!more.is_object() || !body->contains("usage")) return;
  Json& usage = (*body)["usage"];
  if (!usage.is_object()) return;
  for (const char* key :
       {"prompt_tokens", "completion_tokens", "total_tokens"}) {
    const auto mine = usage.find(key);
    const auto other = more.find(key);
    if (mine == usage.end() || other == more.end()) continue;
    if (!mine->is_number_integer() || !other->is_number_integer()) continue;
    *mine = mine->get<int64_t>() + other->get<int64_t>();
  }
}

Json CallsJson(const std::vector<RemoteCall>& calls) {
  Json list = Json::array();
  for (const RemoteCall& call : calls) {
    list.push_back(
        {{"id", call.id},
         {"type", "function"},
         {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
  }
  return list;
}

// In place of `held`: one chunk with the calls, the end, and the usage where it
// was asked for.
std::vector<Json> ChunksOf(const std::vector<RemoteCall>& calls,
                           const std::string& content,
                           const std::vector<Json>& held, const Json& usage) {
  Json frame = held.front();
  frame.erase("usage");
  Json list = CallsJson(calls);
  for (size_t i = 0; i < list.size(); ++i) list[i]["index"] = i;
  // A server may send the role together with the first call.
  Json delta = {{"role", "assistant"}};
  if (!content.empty()) delta["content"] = content;
  delta["tool_calls"] = std::move(list);
  const auto with = [&](Json delta_json, Json reason) {
    Json chunk = frame;
    chunk["choices"] = Json::array({{{"index", 0},
                                     {"delta", std::move(delta_json)},
                                     {"finish_reason", std::move(reason)}}});
    return chunk;
  };
  std::vector<Json> chunks = {with(std::move(delta), nullptr),
                              with(Json::object(), "tool_calls")};
  for (const Json& chunk : held) {
    const auto found = chunk.find("usage");
    if (found == chunk.end() || !found->is_object()) continue;
    Json last = frame;
    last["choices"] = Json::array();
    last["usage"] = *found;
    AddUsage(usage, &last);
    chunks.push_back(std::move(last));
    break;
  }
  return chunks;
}

}  // namespace

ChatReply Exchange::Send(const Json& body, bool is_stream,
                         const std::function<bool(Json&&)>& on_chunk) {
  ChatCall call;
  call.body = DumpJson(body);
  // The repair round goes where the first one was: it has the prefix.
  call.key = PrefixKey(request_.body);
  call.is_stream = is_stream;
  call.deadline = request_.deadline;
  call.should_cancel = request_.should_cancel;
  call.on_chunk = on_chunk;
  ChatReply reply = client_->Send(call);
  report_.attempts += reply.attempts;
  if (!reply.replica.empty()) report_.replica = reply.replica;
  return reply;
}

std::optional<RemoteError> Exchange::Run(
    const std::function<bool(Json&&)>& emit, Json* whole) {
  return request_.is_stream ? RunStream(emit) : RunWhole(whole);
}

std::optional<RemoteError> Exchange::RunWhole(Json* whole) {
  ChatReply reply = Send(request_.body, /*is_stream=*/false, {});
  if (reply.error.has_value()) return std::move(reply.error);
  report_.first_byte_at = Clock::Monotonic().Now();
  const auto calls = AnswerParts::OfWhole(reply.whole).calls();
  const bool forces = calls.empty() && request_.must_call.has_value();
  const auto better = forces ? ForceCall() : CheckAndRepair(calls);
  for (Json& choice : reply.whole["choices"]) {
    if (better.empty()) break;
    // The one that AnswerParts looks into.
    const Json alone = {{"choices", Json::array({choice})}};
    if (!forces && AnswerParts::OfWhole(alone).calls().empty()) continue;
    if (!choice.is_object() || !choice.contains("message") ||
        !choice["message"].is_object()) {
      continue;
    }
    choice["message"]["tool_calls"] = CallsJson(better);
    if (forces) {
      choice["message"]["content"] = nullptr;
      choice["finish_reason"] = "tool_calls";
    }
    break;
  }
  AddUsage(repair_usage_, &reply.whole);
  *whole = std::move(reply.whole);
  return std::nullopt;
}

std::optional<RemoteError> Exchange::RunStream(
    const std::function<bool(Json&&)>& emit) {
  std::vector<Json> held;
  AnswerParts parts;
  bool is_read = true;
  ChatReply reply = Send(request_.body, /*is_stream=*/true, [&](Json&& chunk) {
    if (report_.first_byte_at.count() == 0) {
      report_.first_byte_at = Clock::Monotonic().Now();
    }
    if (!request_.tools.empty() &&
        (!held.empty() || request_.must_call.has_value() ||
         HasCallFragment(chunk))) {
      parts.AddChunk(chunk);
      held.push_back(std::move(chunk));
      return true;
    }
    is_read = emit(std::move(chunk));
    return is_read;
  });
  if (reply.error.has_value() || !is_read) return std::move(reply.error);
  if (held.empty()) return std::nullopt;
  const bool forces = parts.calls().empty() && request_.must_call.has_value();
  const auto better = forces ? ForceCall() : CheckAndRepair(parts.calls());
  if (!better.empty()) {
    held = ChunksOf(better, forces ? std::string() : parts.content(), held,
                    repair_usage_);
  }
  for (Json& chunk : held) {
    if (!emit(std::move(chunk))) break;
  }
  return std::nullopt;
}

std::vector<RemoteCall> Exchange::CheckAndRepair(
    const std::vector<RemoteCall>& calls) {
  if (calls.empty() || request_.tools.empty()) return {};
  CallChecker checker(request_.tools);
  std::vector<WrongCall> wrong;
  std::vector<size_t> places;  // in `calls`
  for (size_t i = 0; i < calls.size(); ++i) {
    const Status checked = checker.Check(calls[i]);
    report_.calls.push_back({.tool = calls[i].name,
                             .is_valid = checked.ok(),
                             .problem = checked.message()});
    if (checked.ok()) continue;
    wrong.push_back({.call = calls[i], .problem = checked.message()});
    places.push_back(i);
  }
  if (wrong.empty()) return {};

  // The full schemas of the tools that were meant; of an unknown one: all that
  // went out.
  Json tools = Json::array();
  for (size_t i = 0; i < request_.tools.size(); ++i) {
    const bool is_meant =
        std::any_of(wrong.begin(), wrong.end(), [&](const WrongCall& each) {
          return each.call.name == request_.tools[i].name;
        });
    if (is_meant && request_.entries != nullptr) {
      tools.push_back((*request_.entries)[i]);
    }
  }
  if (tools.empty() && request_.body.contains("tools")) {
    tools = request_.body["tools"];
  }
  if (tools.empty()) return {};
  ++report_.repair_rounds;
  ChatReply reply = Send(RepairRequest(request_.body, wrong, std::move(tools)),
                         /*is_stream=*/false, {});
  if (reply.error.has_value()) {
    report_.repair_error = reply.error->message;
    return {};
  }
  repair_usage_ = reply.whole.value("usage", Json());
  const auto again = AnswerParts::OfWhole(reply.whole).calls();
  if (again.size() != wrong.size()) {
    report_.repair_error = "expected " + std::to_string(wrong.size()) +
                           " calls, found " + std::to_string(again.size());
    return {};
  }
  std::vector<RemoteCall> better = calls;
  for (size_t i = 0; i < again.size(); ++i) {
    const Status checked = checker.Check(again[i]);
    CallReport& report = report_.calls[places[i]];
    if (!checked.ok()) {
      report_.repair_error = checked.message();
      continue;
    }
    better[places[i]] = again[i];
    report = {.tool = again[i].name, .is_valid = true, .problem = {}};
  }
  return better;
}

std::vector<RemoteCall> Exchange::ForceCall() {
  const schema::ToolSchema& tool = request_.tools[*request_.must_call];
  const Json body = ArgumentsRequest(request_.body, tool);
  ++report_.repair_rounds;
  ChatReply reply = Send(body, /*is_stream=*/false, {});
  if (reply.error.has_value()) {
    report_.repair_error = reply.error->message;
    return {};
  }
  repair_usage_ = reply.whole.value("usage", Json());
  RemoteCall call;
  call.name = tool.name;
  call.arguments = AnswerParts::OfWhole(reply.whole).content();
  // Unlike any other of this conversation.
  call.id =
      "call_" + ToHex(Sha256Of(DumpJson(body) + call.arguments)).substr(0, 24);
  const Status checked = CallChecker(request_.tools).Check(call);
  if (call.arguments.empty() || !checked.ok()) {
    report_.repair_error = "the remote answered a forced call in words" +
                           (checked.ok() ? "" : ": " + checked.message());
    return {};
  }
  report_.calls.push_back({.tool = call.name, .is_valid = true, .problem = {}});
  return {call};
}

}  // namespace nexus::remote
