#include "nexus/engine/ask.h"

#include <utility>

#include "nexus/base/clock.h"

namespace nexus::engine {
namespace {

double Since(std::chrono::nanoseconds start) {
  return Milliseconds(Clock::Monotonic().Now() - start);
}

Result<schema::ToolSchema> FindTool(const route::ToolIndex& index,
                                    const std::string& id) {
  for (const schema::ToolSchema& tool : index.tools()) {
    if (schema::ToolId(tool) == id) return tool;
  }
  // A bare name will do where it is unique.
  const schema::ToolSchema* found = nullptr;
  for (const schema::ToolSchema& tool : index.tools()) {
    if (tool.name != id) continue;
    if (found != nullptr) {
      return InvalidArgumentError("tool '" + id +
                                  "' exists on several servers; write "
                                  "server/name");
    }
    found = &tool;
  }
  if (found == nullptr) {
    return NotFoundError("tool '" + id +
                         "' isn't in the registry; `nexus tools` lists it");
  }
  return *found;
}

}  // namespace

Result<std::optional<schema::ToolSchema>> Asker::ChooseTool(
    const std::string& question, const AskOptions& options,
    AskResult* result) const {
  if (!options.forced_tool.empty()) {
    NEXUS_ASSIGN_OR_RETURN(schema::ToolSchema tool,
                           FindTool(*router_->index(), options.forced_tool));
    return std::optional(std::move(tool));
  }
  const auto start = Clock::Monotonic().Now();
  NEXUS_ASSIGN_OR_RETURN(
      result->decision, router_->Route(question, {.servers = options.servers}));
  result->route_ms = Since(start);
  if (options.on_route) options.on_route(result->decision);
  const route::RouteDecision& decision = result->decision;
  if (decision.outcome == route::Outcome::kAbstain ||
      decision.candidates.empty()) {
    return std::optional<schema::ToolSchema>();
  }
  return std::optional(decision.tool(decision.candidates.front()));
}

Result<AskResult> Asker::Ask(std::span<const llm::ChatMessage> messages,
                             const AskOptions& options) {
  const auto arrived = options.arrived_at.count() != 0
                           ? options.arrived_at
                           : Clock::Monotonic().Now();
  if (messages.empty() || messages.back().role != "user") {
    return InvalidArgumentError(
        "the conversation must end with a message of role 'user'");
  }
  AskResult result;
  NEXUS_ASSIGN_OR_RETURN(result.tool,
                         ChooseTool(messages.back().content, options, &result));
  if (!result.tool.has_value()) {
    result.total_ms = Since(arrived);
    return result;
  }
  const schema::ToolSchema& tool = *result.tool;

  auto start = Clock::Monotonic().Now();
  NEXUS_ASSIGN_OR_RETURN(result.plan,
                         engine_->planner().PlanCall(messages, {&tool, 1},
                                                     options.mode, tool.name));
  result.plan_ms = Since(start);

  start = Clock::Monotonic().Now();
  PrepareOptions prepare = options.prepare;
  if (options.mode == ArgumentMode::kIr && prepare.tier == Tier::kAuto) {
    // About twenty tokens: nothing to save by splicing them.
    prepare.tier = Tier::kPrefill;
  }
  NEXUS_ASSIGN_OR_RETURN(result.tier, session_->Prepare(result.plan, prepare));
  result.prepare_ms = Since(start);
  if (options.on_prepared) options.on_prepared(tool, result.tier);

  NEXUS_ASSIGN_OR_RETURN(
      result.call, generator_.Generate(*session_, result.plan,
                                       engine_->planner(), tool, options.call));
  result.ttft_ms = Milliseconds(result.call.first_token_at - arrived);
  result.total_ms = Since(arrived);
  return result;
}

}  // namespace nexus::engine
