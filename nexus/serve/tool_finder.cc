#include "nexus/serve/tool_finder.h"

#include <algorithm>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/engine/list_order.h"
#include "nexus/serve/tool_choice.h"

namespace nexus::serve {
namespace {

using schema::ToolSchema;

bool Holds(std::span<const ToolSchema> tools, const ToolSchema& tool) {
  return std::any_of(tools.begin(), tools.end(), [&](const ToolSchema& other) {
    return other.name == tool.name && other.server == tool.server;
  });
}

// A name that the model can't mix up with one of the client's.
std::string FinderName(const ChatRequest& request) {
  std::string name = "find_tool";
  while (FindTool(request, name) != nullptr) name = "nexus_" + name;
  return name;
}

ToolSchema Finder(const ChatRequest& request) {
  ToolSchema finder;
  finder.name = FinderName(request);
  finder.description =
      "Find more tools. Call it when no other tool listed here can do what is "
      "needed.";
  finder.parameters = {
      {"type", "object"},
      {"properties",
       {{"query",
         {{"type", "string"},
          {"description", "What the tool must do, in a few words"},
          {"maxLength", 200}}}}},
      {"required", Json::array({"query"})},
      {"additionalProperties", false}};
  return finder;
}

void Add(const ToolSchema* tool, std::vector<ToolSchema>* tools) {
  if (tool != nullptr && !Holds(*tools, *tool)) tools->push_back(*tool);
}

}  // namespace

Status ListTools(ToolRouter* router, const HybridOptions& options, ChatJob* job,
                 const Caller& caller) {
  const ChatRequest& request = job->request;
  std::vector<ToolSchema> tools;
  const bool lists_all =
      job->mode == ToolsMode::kPin ||
      request.tools.size() <= static_cast<size_t>(options.tools) + 1;
  if (lists_all) {
    tools = request.tools;
  } else {
    const auto start = Clock::Monotonic().Now();
    job->routed_text = LastUserText(request.messages);
    NEXUS_ASSIGN_OR_RETURN(
        job->decision,
        router->Route(request.tools, job->routed_text,
                      {.top_k = std::max(options.tools, 1)}, caller));
    job->route_ms = Milliseconds(Clock::Monotonic().Now() - start);
    for (const route::Candidate& candidate : job->decision->candidates) {
      if (tools.size() == static_cast<size_t>(options.tools)) break;
      tools.push_back(job->decision->tool(candidate));
    }
    if (job->tool.has_value()) Add(&*job->tool, &tools);
    // A call to a tool that isn't there would puzzle the model.
    for (const llm::ChatMessage& message : request.messages) {
      for (const llm::ToolCall& call : message.tool_calls) {
        Add(FindTool(request, call.name), &tools);
      }
    }
    // In front: every list begins with it.
    if (tools.size() < request.tools.size()) job->finder = Finder(request);
  }
  if (job->finder.has_value()) job->listed.push_back(*job->finder);
  // One order for equal sets: their cells are then found again.
  for (const size_t place : engine::CanonicalOrder(tools)) {
    job->listed.push_back(std::move(tools[place]));
  }
  return Status::Ok();
}

Result<std::vector<ToolSchema>> SearchTools(ToolRouter* router,
                                            const ChatRequest& request,
                                            std::span<const ToolSchema> listed,
                                            std::string_view query,
                                            int max_tools) {
  // Of all tools, whose index is there already.
  NEXUS_ASSIGN_OR_RETURN(
      const route::RouteDecision decision,
      router->Route(request.tools, query,
                    {.top_k = max_tools + static_cast<int>(listed.size())}));
  std::vector<ToolSchema> found;
  for (const route::Candidate& candidate : decision.candidates) {
    if (found.size() == static_cast<size_t>(max_tools)) break;
    const ToolSchema& tool = decision.tool(candidate);
    if (!Holds(listed, tool)) found.push_back(tool);
  }
  return found;
}

std::string FoundText(std::span<const ToolSchema> found) {
  if (found.empty()) return "There is no other tool for that.";
  std::string text = "These tools can be called too:";
  for (const ToolSchema& tool : found) text += "\n" + schema::ModelText(tool);
  return text;
}

}  // namespace nexus::serve
