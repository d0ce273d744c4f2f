// The tools that stand in the context in modes kPin and kHybrid, and how the
// model gets at the others.
//
// In mode kHybrid only the few that fit the user's message best are listed,
// those that the conversation has called already, and `find_tool`, which is
// Nexus's own: when the model calls it, its query is routed over the rest, what
// is found is given back as its result, and the model goes on. The client never
// sees that call.
#ifndef NEXUS_SERVE_TOOL_FINDER_H_
#define NEXUS_SERVE_TOOL_FINDER_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/serve/chat_job.h"
#include "nexus/serve/tool_router.h"

namespace nexus::serve {

// Searches for one answer; after the last one the finder isn't offered.
inline constexpr int kMaxToolSearches = 2;

struct HybridOptions {
  int tools = 4;  // that are listed for the user's message
  int found = 3;  // by one search, at most
};

// Fills the job's list, and its finder where there is one: a list that shows
// every tool needs none. Thread-safe.
Status ListTools(ToolRouter* router, const HybridOptions& options, ChatJob* job,
                 const Caller& caller = {});

// Tools of the request that fit the query and aren't listed, best first.
Result<std::vector<schema::ToolSchema>> SearchTools(
    ToolRouter* router, const ChatRequest& request,
    std::span<const schema::ToolSchema> listed, std::string_view query,
    int max_tools);

// The finder's result as the model reads it.
std::string FoundText(std::span<const schema::ToolSchema> found);

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_TOOL_FINDER_H_
