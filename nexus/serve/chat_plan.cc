#include "nexus/serve/chat_plan.h"

#include <vector>

#include "nexus/base/clock.h"
#include "nexus/compile/compile_contexts.h"

namespace nexus::serve {
namespace {

using llm::Token;

Status PlanRoutedCall(const engine::PromptPlanner& planner, ChatJob* job) {
  const schema::ToolSchema& tool = *job->tool;
  if (job->request.messages.back().role == "user") {
    NEXUS_ASSIGN_OR_RETURN(
        job->plan, planner.PlanCall(job->request.messages, {&tool, 1},
                                    engine::ArgumentMode::kSchema, tool.name));
    return Status::Ok();
  }
  // Behind a tool's result there is no user turn to keep at the end.
  job->plan.history = job->conversation;
  NEXUS_ASSIGN_OR_RETURN(
      job->plan.block,
      planner.BlockTokens({&tool, 1}, engine::ArgumentMode::kSchema));
  NEXUS_ASSIGN_OR_RETURN(
      job->plan.preamble,
      planner.PreambleTokens(tool.name, &job->plan.space_before_arguments));
  return Status::Ok();
}

Status PlanListed(const engine::Engine& engine, ChatJob* job) {
  const engine::PromptPlanner& planner = engine.planner();
  const ChatRequest& request = job->request;
  const llm::ChatMessage& first = request.messages.front();
  NEXUS_ASSIGN_OR_RETURN(
      job->plan, planner.PlanListBlock(first.role == "system"
                                           ? std::string_view(first.content)
                                           : compile::kDefaultSystemPrompt,
                                       job->listed));
  NEXUS_ASSIGN_OR_RETURN(job->plan.user,
                         planner.ListTurnTokens(request.messages));
  if (job->tool.has_value()) {
    NEXUS_ASSIGN_OR_RETURN(
        job->plan.preamble,
        planner.PreambleTokens(job->tool->name,
                               &job->plan.space_before_arguments));
    return Status::Ok();
  }
  NEXUS_ASSIGN_OR_RETURN(job->call_opening, planner.CallOpeningTokens());
  if (request.tool_choice == ToolChoice::kRequired) {
    job->plan.preamble = job->call_opening;
    return Status::Ok();
  }
  NEXUS_ASSIGN_OR_RETURN(
      job->plan.preamble,
      engine.model().Tokenize(planner.frame().answer_prefix));
  return Status::Ok();
}

}  // namespace

Status PlanJob(const engine::Engine& engine, ChatJob* job) {
  const auto start = Clock::Monotonic().Now();
  if (!job->listed.empty()) {
    NEXUS_RETURN_IF_ERROR(PlanListed(engine, job));
  } else if (job->tool.has_value()) {
    NEXUS_RETURN_IF_ERROR(PlanRoutedCall(engine.planner(), job));
  } else {
    // PromptPlanner::PlanAnswer, without rendering the conversation again.
    job->plan.history = job->conversation;
    NEXUS_ASSIGN_OR_RETURN(
        job->plan.preamble,
        engine.model().Tokenize(engine.planner().frame().answer_prefix));
  }
  job->plan_ms = Milliseconds(Clock::Monotonic().Now() - start);
  return Status::Ok();
}

}  // namespace nexus::serve
