// What Nexus has to know of a chat request that a remote answers, and which of
// its tools go out. Everything else in the request is the remote's to judge.
#ifndef NEXUS_SERVE_REMOTE_REQUEST_H_
#define NEXUS_SERVE_REMOTE_REQUEST_H_

#include <optional>

#include "nexus/base/json.h"
#include "nexus/base/result.h"
#include "nexus/remote/tool_request.h"
#include "nexus/route/router.h"
#include "nexus/serve/openai_chat.h"
#include "nexus/serve/tool_router.h"

namespace nexus::serve {

// Fills `model`, `tools`, `tool_choice`, `named_tool`, `stream` and the fields
// of `nexus`; the messages are looked at as far as they are a list of objects.
std::optional<ApiError> ParseRemoteRequest(const Json& body,
                                           ChatRequest* request);

struct RemoteTools {
  bool sends_all = true;  // as they are; else:
  remote::ToolPick pick;
  std::optional<route::RouteDecision> decision;
  double route_ms = 0;
};

// Mode pin: all. Mode route: a named tool alone; else, by the last user
// message, the best one if the router is sure, and the model must call it; if
// it isn't sure the best `max_tools`, and the choice is the client's. Behind a
// tool's result also those that were called before, and nothing is forced: what
// is still missing only the model knows.
Result<RemoteTools> ChooseRemoteTools(const Json& body,
                                      const ChatRequest& request,
                                      ToolsMode mode, int max_tools,
                                      ToolRouter* router,
                                      const Caller& caller = {});

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_REMOTE_REQUEST_H_
