#include "nexus/serve/chat_worker.h"

#include <algorithm>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/engine/compose_call.h"
#include "nexus/serve/answer_generator.h"
#include "nexus/serve/call_ids.h"
#include "nexus/serve/report_json.h"
#include "nexus/serve/stop_filter.h"

namespace nexus::serve {
namespace {

using llm::Token;

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
  NEXUS_ASSIGN_OR_RETURN(job.tier, session.Prepare(job.plan, options_.prepare));
  job.prepare_ms = Milliseconds(Clock::Monotonic().Now() - start);
  if (job.tool.has_value()) return WriteCall(job, session, *job.tool);
  return job.pinned.empty() ? WriteWords(job, session)
                            : AnswerPinned(job, session);
}

Result<ChatResult> ChatWorker::AnswerPinned(ChatJob& job,
                                            engine::Session& session) {
  const std::span<const Token> opening(job.call_opening);
  const std::vector<Token>& preamble = job.plan.preamble;
  const auto shared =
      static_cast<size_t>(std::mismatch(opening.begin(), opening.end(),
                                        preamble.begin(), preamble.end())
                              .first -
                          opening.begin());
  if (shared < opening.size()) {
    // The model has the choice at the first token that a call has and an answer
    // hasn't. A family whose calls open another way never calls by itself.
    const bool calls = shared == preamble.size() &&
                       MostLikely(session.logits()) == opening[shared];
    if (!calls) return WriteWords(job, session);
    NEXUS_RETURN_IF_ERROR(
        session.Append(opening.subspan(shared), llm::Logits::kLast));
  }
  NEXUS_ASSIGN_OR_RETURN(
      const auto caller,
      engine::ListCaller::Create(engine_, job.pinned, options_.call_tokens));
  NEXUS_ASSIGN_OR_RETURN(
      const engine::ListCaller::Choice choice,
      caller->Choose(session, job.plan.history.size() + job.plan.block.size(),
                     job.plan.user));
  job.plan.space_before_arguments = choice.space_follows;
  return WriteCall(job, session, job.pinned[choice.tool]);
}

Result<ChatResult> ChatWorker::WriteCall(ChatJob& job, engine::Session& session,
                                         const schema::ToolSchema& tool) {
  const ChatRequest& request = job.request;
  llm::ToolCall call = {.id = NewId("call_"), .name = tool.name};
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
  job.call_report = {{"tool", schema::ToolId(tool)}};
  job.call_report.update(CallJson(made));
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
