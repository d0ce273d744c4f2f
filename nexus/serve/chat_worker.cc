#include "nexus/serve/chat_worker.h"

#include <algorithm>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/compile/compile_contexts.h"
#include "nexus/engine/compose_call.h"
#include "nexus/engine/list_order.h"
#include "nexus/serve/answer_generator.h"
#include "nexus/serve/call_ids.h"
#include "nexus/serve/stop_filter.h"

namespace nexus::serve {
namespace {

using engine::PromptPlan;
using llm::Token;
using std::chrono::nanoseconds;

double Since(nanoseconds start) {
  return Milliseconds(Clock::Monotonic().Now() - start);
}

// Arguments on their way out: whole characters, without the space that a plan's
// preamble may have left to them.
class ArgumentsOut {
 public:
  explicit ArgumentsOut(const ChatJob* job) : job_(job) {}

  void Feed(std::string_view piece) { Push(characters_.Feed(piece)); }
  void End() { Push(characters_.Flush()); }

 private:
  void Push(std::string text) {
    if (!has_begun_) text.erase(0, text.find_first_not_of(' '));
    if (text.empty()) return;
    has_begun_ = true;
    ChatEvent event;
    event.kind = ChatEvent::Kind::kCallArguments;
    event.text = std::move(text);
    job_->Push(std::move(event));
  }

  const ChatJob* job_;
  StopFilter characters_{{}};
  bool has_begun_ = false;
};

Token MostLikely(std::span<const float> logits) {
  return static_cast<Token>(std::max_element(logits.begin(), logits.end()) -
                            logits.begin());
}

}  // namespace

Result<ChatResult> ChatWorker::Answer(ChatJob& job, engine::Session& session) {
  const auto start = Clock::Monotonic().Now();
  const bool has_tools = !job.request.tools.empty() &&
                         job.request.tool_choice != ToolChoice::kNone;
  if (job.mode == ToolsMode::kPin && has_tools) {
    return AnswerPinned(job, session);
  }
  if (job.tool.has_value()) {
    NEXUS_RETURN_IF_ERROR(PlanCall(job));
  } else {
    NEXUS_ASSIGN_OR_RETURN(job.plan,
                           engine_->planner().PlanAnswer(job.request.messages));
  }
  job.plan_ms = Since(start);
  NEXUS_RETURN_IF_ERROR(Prepare(job, session));
  return job.tool.has_value() ? WriteCall(job, session, *job.tool)
                              : WriteWords(job, session);
}

Status ChatWorker::Prepare(ChatJob& job, engine::Session& session) {
  const auto start = Clock::Monotonic().Now();
  NEXUS_ASSIGN_OR_RETURN(job.tier, session.Prepare(job.plan, options_.prepare));
  job.prepare_ms = Since(start);
  return Status::Ok();
}

Status ChatWorker::PlanCall(ChatJob& job) const {
  const engine::PromptPlanner& planner = engine_->planner();
  const schema::ToolSchema& tool = *job.tool;
  if (job.request.messages.back().role == "user") {
    NEXUS_ASSIGN_OR_RETURN(
        job.plan, planner.PlanCall(job.request.messages, {&tool, 1},
                                   engine::ArgumentMode::kSchema, tool.name));
    return Status::Ok();
  }
  // Behind a tool's result there is no user turn to keep at the end.
  job.plan.history = job.conversation;
  NEXUS_ASSIGN_OR_RETURN(
      job.plan.block,
      planner.BlockTokens({&tool, 1}, engine::ArgumentMode::kSchema));
  NEXUS_ASSIGN_OR_RETURN(
      job.plan.preamble,
      planner.PreambleTokens(tool.name, &job.plan.space_before_arguments));
  return Status::Ok();
}

Result<ChatResult> ChatWorker::AnswerPinned(ChatJob& job,
                                            engine::Session& session) {
  const auto start = Clock::Monotonic().Now();
  const engine::PromptPlanner& planner = engine_->planner();
  const ChatRequest& request = job.request;
  // One order for equal sets: their cells are then found again.
  std::vector<schema::ToolSchema> tools;
  for (const size_t place : engine::CanonicalOrder(request.tools)) {
    tools.push_back(request.tools[place]);
  }
  const llm::ChatMessage& first = request.messages.front();
  NEXUS_ASSIGN_OR_RETURN(
      job.plan, planner.PlanListBlock(first.role == "system"
                                          ? std::string_view(first.content)
                                          : compile::kDefaultSystemPrompt,
                                      tools));
  NEXUS_ASSIGN_OR_RETURN(job.plan.user,
                         planner.ListTurnTokens(request.messages));
  if (job.tool.has_value()) {
    NEXUS_ASSIGN_OR_RETURN(
        job.plan.preamble,
        planner.PreambleTokens(job.tool->name,
                               &job.plan.space_before_arguments));
    job.plan_ms = Since(start);
    NEXUS_RETURN_IF_ERROR(Prepare(job, session));
    return WriteCall(job, session, *job.tool);
  }
  NEXUS_ASSIGN_OR_RETURN(const std::vector<Token> call_opening,
                         planner.CallOpeningTokens());
  const bool must_call = request.tool_choice == ToolChoice::kRequired;
  size_t shared = call_opening.size();
  job.plan.preamble = call_opening;
  if (!must_call) {
    NEXUS_ASSIGN_OR_RETURN(
        job.plan.preamble,
        engine_->model().Tokenize(planner.frame().answer_prefix));
    shared = static_cast<size_t>(
        std::mismatch(call_opening.begin(), call_opening.end(),
                      job.plan.preamble.begin(), job.plan.preamble.end())
            .first -
        call_opening.begin());
  }
  job.plan_ms = Since(start);
  NEXUS_RETURN_IF_ERROR(Prepare(job, session));
  if (!must_call) {
    // The model has the choice at the first token that a call has and an answer
    // hasn't. A family whose calls open another way never calls by itself.
    const bool calls = shared == job.plan.preamble.size() &&
                       shared < call_opening.size() &&
                       MostLikely(session.logits()) == call_opening[shared];
    if (!calls) return WriteWords(job, session);
    NEXUS_RETURN_IF_ERROR(session.Append(
        std::span(call_opening).subspan(shared), llm::Logits::kLast));
  }
  NEXUS_ASSIGN_OR_RETURN(
      const auto caller,
      engine::ListCaller::Create(engine_, tools, options_.call_tokens));
  NEXUS_ASSIGN_OR_RETURN(
      const engine::ListCaller::Choice choice,
      caller->Choose(session, job.plan.history.size() + job.plan.block.size(),
                     job.plan.user));
  job.plan.space_before_arguments = choice.space_follows;
  return WriteCall(job, session, tools[choice.tool]);
}

Result<ChatResult> ChatWorker::WriteCall(ChatJob& job, engine::Session& session,
                                         const schema::ToolSchema& tool) {
  const ChatRequest& request = job.request;
  llm::ToolCall call = {.id = NewCallId(), .name = tool.name};
  ChatEvent begin;
  begin.kind = ChatEvent::Kind::kCallBegin;
  begin.call = call;
  job.Push(std::move(begin));

  // Arguments that only the validator can judge may be written twice; they
  // can't go out before they are right.
  NEXUS_ASSIGN_OR_RETURN(
      const engine::CallConstraint* constraint,
      generator_.ConstraintFor(tool, job.plan.space_before_arguments));
  const bool live = request.stream && constraint->relaxed.empty();
  ArgumentsOut out(&job);
  engine::CallOptions options;
  options.max_tokens = request.max_tokens.value_or(options_.call_tokens);
  options.temperature = request.temperature;
  options.seed = request.seed;
  options.repair = !live;
  if (live) options.on_text = [&](std::string_view text) { out.Feed(text); };
  NEXUS_ASSIGN_OR_RETURN(
      const engine::GeneratedCall made,
      generator_.Generate(session, job.plan, engine_->planner(), tool,
                          options));
  job.ttft_ms = Milliseconds(made.first_token_at - job.arrived_at);
  if (!live) out.Feed(made.text);
  out.End();

  call.arguments = made.text;
  call.arguments.erase(0, call.arguments.find_first_not_of(' '));
  job.reply.role = "assistant";
  job.reply.tool_calls = {call};
  // A template must be able to write it into the next prompt.
  if (!made.arguments.is_object()) job.reply.tool_calls[0].arguments = "{}";
  job.call_report = {{"tool", schema::ToolId(tool)},
                     {"valid", made.valid},
                     {"invalid_reason", made.invalid_reason},
                     {"repair_rounds", made.repair_rounds},
                     {"closed_at_limit", made.closed_at_limit},
                     {"relaxed", made.relaxed}};
  ChatResult result;
  result.tool_calls = {std::move(call)};
  result.finish_reason = made.arguments.is_null() ? "length" : "tool_calls";
  result.usage.completion_tokens = made.sampled_tokens;
  return result;
}

Result<std::string> ChatWorker::FormatGrammar(
    const ChatRequest& request) const {
  if (request.format == ResponseFormat::kText) return std::string();
  schema::ToolSchema wanted;
  wanted.name = "response_format";
  wanted.parameters = request.format == ResponseFormat::kJsonSchema
                          ? request.format_schema
                          : Json{{"type", "object"}};
  NEXUS_ASSIGN_OR_RETURN(const auto constraint,
                         engine::MakeConstraint(engine_->model(), wanted,
                                                /*leading_space=*/false));
  return constraint->grammar;
}

Result<ChatResult> ChatWorker::WriteWords(ChatJob& job,
                                          engine::Session& session) {
  const ChatRequest& request = job.request;
  AnswerOptions options;
  options.max_tokens = request.max_tokens.value_or(0);
  options.temperature = request.temperature;
  options.top_p = request.top_p;
  options.seed = request.seed;
  options.stop = request.stop;
  NEXUS_ASSIGN_OR_RETURN(options.grammar, FormatGrammar(request));
  options.on_text = [&](std::string_view piece) {
    ChatEvent event;
    event.text = piece;
    job.Push(std::move(event));
  };
  NEXUS_ASSIGN_OR_RETURN(GeneratedAnswer answer,
                         GenerateAnswer(session, engine_->model(), options));
  job.ttft_ms = Milliseconds(answer.first_token_at - job.arrived_at);
  job.reply.role = "assistant";
  job.reply.content = answer.text;
  ChatResult result;
  result.content = std::move(answer.text);
  result.finish_reason = answer.at_limit ? "length" : "stop";
  result.usage.completion_tokens = answer.sampled_tokens;
  return result;
}

}  // namespace nexus::serve
