#include "nexus/serve/tool_choice.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/route/clauses.h"

namespace nexus::serve {
namespace {

using llm::ChatMessage;
using route::Candidate;
using route::Outcome;
using route::RouteDecision;

// The last message of the user; end(): none.
auto LastUserMessage(const std::vector<ChatMessage>& messages) {
  const auto found =
      std::find_if(messages.rbegin(), messages.rend(),
                   [](const auto& message) { return message.role == "user"; });
  return found == messages.rend() ? messages.end() : found.base() - 1;
}

// What was called since the user's last message, and how often.
using CallCounts = std::map<std::string, int>;

// Takes off a call that did what the clause wants: of its best tool or, in a
// close race, of one of those at the front.
bool TakeCall(const RouteDecision& decision, CallCounts* calls) {
  constexpr size_t kFront = 3;
  const size_t front = decision.outcome == Outcome::kRoute
                           ? std::min<size_t>(decision.candidates.size(), 1)
                           : std::min(decision.candidates.size(), kFront);
  for (size_t i = 0; i < front; ++i) {
    const auto call = calls->find(decision.tool(decision.candidates[i]).name);
    if (call == calls->end()) continue;
    if (--call->second == 0) calls->erase(call);
    return true;
  }
  return false;
}

// nullopt: nothing is left.
Result<std::optional<RouteDecision>> RouteWhatIsLeft(ToolRouter* router,
                                                     ChatJob* job,
                                                     const Caller& caller) {
  const std::vector<ChatMessage>& messages = job->request.messages;
  const auto user = LastUserMessage(messages);
  if (user == messages.end()) return std::optional<RouteDecision>();
  CallCounts calls;
  size_t call_count = 0;
  for (auto it = user; it != messages.end(); ++it) {
    for (const llm::ToolCall& call : it->tool_calls) {
      ++calls[call.name];
      ++call_count;
    }
  }
  const std::vector<std::string> clauses = route::Clauses(user->content);
  // Calls that match no clause count too: this must end.
  if (call_count >= clauses.size()) return std::optional<RouteDecision>();
  for (const std::string& clause : clauses) {
    NEXUS_ASSIGN_OR_RETURN(
        RouteDecision decision,
        router->Route(job->request.tools, clause, {}, caller));
    // A fragment that no tool fits surely wants none; a call too many costs
    // more than an answer too early.
    if (decision.outcome == Outcome::kAbstain) continue;
    if (TakeCall(decision, &calls)) continue;
    if (decision.outcome != Outcome::kRoute) continue;
    job->routed_text = clause;
    return std::optional<RouteDecision>(std::move(decision));
  }
  return std::optional<RouteDecision>();
}

}  // namespace

std::string_view LastUserText(const std::vector<ChatMessage>& messages) {
  const auto user = LastUserMessage(messages);
  return user == messages.end() ? std::string_view() : user->content;
}

Status ChooseTool(ToolRouter* router, ChatJob* job, const Caller& caller) {
  const ChatRequest& request = job->request;
  if (request.tools.empty() || request.tool_choice == ToolChoice::kNone) {
    return Status::Ok();
  }
  if (request.tool_choice == ToolChoice::kNamed) {
    job->tool = *FindTool(request, request.named_tool);
    return Status::Ok();
  }
  // With a list before it the model chooses.
  if (job->mode != ToolsMode::kRoute) return Status::Ok();
  const bool must_call = request.tool_choice == ToolChoice::kRequired;
  const auto start = Clock::Monotonic().Now();
  if (request.messages.back().role != "user") {
    NEXUS_ASSIGN_OR_RETURN(job->decision, RouteWhatIsLeft(router, job, caller));
  }
  if (!job->decision.has_value() &&
      (must_call || request.messages.back().role == "user")) {
    job->routed_text = LastUserText(request.messages);
    NEXUS_ASSIGN_OR_RETURN(
        job->decision,
        router->Route(request.tools, job->routed_text, {}, caller));
  }
  job->route_ms = Milliseconds(Clock::Monotonic().Now() - start);
  if (job->decision.has_value() && !job->decision->candidates.empty() &&
      (must_call || job->decision->outcome != Outcome::kAbstain)) {
    job->tool = job->decision->tool(job->decision->candidates.front());
  } else if (must_call) {
    job->tool = request.tools.front();
  }
  return Status::Ok();
}

}  // namespace nexus::serve
