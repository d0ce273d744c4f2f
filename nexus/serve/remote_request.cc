#include "nexus/serve/remote_request.h"

#include <algorithm>
#include <set>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/serve/field_reader.h"

namespace nexus::serve {

std::optional<ApiError> ParseRemoteRequest(const Json& body,
                                           ChatRequest* request) {
  FieldReader read;
  const Json* messages = read.FindArray(body, "", "messages", kMaxMessages);
  if (messages == nullptr || messages->empty()) {
    read.Fail("messages", "expected at least one message");
  } else {
    for (size_t i = 0; i < messages->size(); ++i) {
      if (!(*messages)[i].is_object()) {
        read.Fail(ItemPath("messages", i), "expected an object");
        break;
      }
    }
  }
  if (auto error = read.TakeError()) return error;
  // The same rules as for a local model, for the fields that Nexus acts on.
  Json mine = {
      {"messages", Json::array({{{"role", "user"}, {"content", "-"}}})}};
  for (const char* key : {"model", "tools", "tool_choice", "stream",
                          "stream_options", "functions", "nexus"}) {
    const auto found = body.find(key);
    if (found != body.end()) mine[key] = *found;
  }
  return ParseChatRequest(mine, request);
}

Result<RemoteTools> ChooseRemoteTools(const Json& body,
                                      const ChatRequest& request,
                                      ToolsMode mode, int max_tools,
                                      ToolRouter* router,
                                      const Caller& caller) {
  RemoteTools chosen;
  if (request.tools.empty() || mode == ToolsMode::kPin) return chosen;
  chosen.sends_all = false;
  remote::ToolPick& pick = chosen.pick;
  const auto place_of = [&](std::string_view name) {
    const auto found = std::find_if(
        request.tools.begin(), request.tools.end(),
        [&](const schema::ToolSchema& tool) { return tool.name == name; });
    return static_cast<size_t>(found - request.tools.begin());
  };
  if (request.tool_choice == ToolChoice::kNone) return chosen;
  if (request.tool_choice == ToolChoice::kNamed) {
    pick.tools.push_back(place_of(request.named_tool));
    pick.must_call = true;
    return chosen;
  }
  const auto start = Clock::Monotonic().Now();
  route::RouteOptions options;
  options.top_k = max_tools;
  NEXUS_ASSIGN_OR_RETURN(
      const route::RouteDecision decision,
      router->Route(request.tools, remote::LastUserText(body), options,
                    caller));
  chosen.route_ms = Milliseconds(Clock::Monotonic().Now() - start);

  const bool is_sure =
      decision.outcome == route::Outcome::kRoute && remote::EndsWithUser(body);
  std::set<size_t> places;
  for (const route::Candidate& candidate : decision.candidates) {
    places.insert(static_cast<size_t>(candidate.tool));
    if (is_sure) break;
  }
  if (!remote::EndsWithUser(body)) {
    for (const std::string& name : remote::CalledTools(body)) {
      const size_t place = place_of(name);
      if (place < request.tools.size()) places.insert(place);
    }
  }
  chosen.decision = decision;
  const bool must_call = request.tool_choice == ToolChoice::kRequired;
  if (places.empty() && must_call) {
    // Nothing to go by, and a call has to come.
    chosen.sends_all = true;
    return chosen;
  }
  pick.tools.assign(places.begin(), places.end());
  pick.must_call = must_call || is_sure;
  return chosen;
}

}  // namespace nexus::serve
