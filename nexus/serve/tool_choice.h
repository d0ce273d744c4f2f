// Which tool a request in mode `route` calls next, if any.
//
// At a user's message: the one that the router finds for the message. After a
// tool's result the router looks again, at what is still to be done: the user's
// message is cut into clauses, each is routed by itself, and the calls since
// the message are counted off. The first clause that is left and clearly wants
// a tool gets it; when none is left the model answers in words. So an agent
// that was asked for two things goes on to the second, an agent that was asked
// for one isn't sent round in a circle, and there are never more calls than
// clauses.
#ifndef NEXUS_SERVE_TOOL_CHOICE_H_
#define NEXUS_SERVE_TOOL_CHOICE_H_

#include <string_view>
#include <vector>

#include "nexus/base/status.h"
#include "nexus/serve/chat_job.h"
#include "nexus/serve/tool_router.h"

namespace nexus::serve {

// Fills the job's tool (none: an answer in words or, with a list before it, the
// model's own choice), its decision and what it was made from. Thread-safe.
Status ChooseTool(ToolRouter* router, ChatJob* job, const Caller& caller = {});

// Empty: the user has said nothing.
std::string_view LastUserText(const std::vector<llm::ChatMessage>& messages);

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_TOOL_CHOICE_H_
