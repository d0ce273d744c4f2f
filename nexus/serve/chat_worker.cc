#include "nexus/serve/chat_worker.h"

#include <algorithm>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/engine/compose_call.h"
#include "nexus/serve/answer_generator.h"
#include "nexus/serve/call_ids.h"
#include "nexus/serve/logprobs_json.h"
#include "nexus/serve/report_json.h"
#include "nexus/serve/stop_filter.h"
#include "nexus/serve/tool_choice.h"
#include "nexus/serve/tool_finder.h"

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

void NoteFirstToken(std::chrono::nanoseconds at, ChatJob* job) {
  job->ttft_ms = Milliseconds(at - job->arrived_at);
  job->sample_ms = Milliseconds(at - job->prepared_at);
}

Token MostLikely(std::span<const float> logits) {
  return static_cast<Token>(std::max_element(logits.begin(), logits.end()) -
                            logits.begin());
}

}  // namespace

Result<ChatResult> ChatWorker::Answer(ChatJob& job, engine::Session& session) {
  const auto start = Clock::Monotonic().Now();
  NEXUS_ASSIGN_OR_RETURN(job.tier, session.Prepare(job.plan, options_.prepare));
  job.prepared_at = Clock::Monotonic().Now();
  job.prepare_ms = Milliseconds(job.prepared_at - start);
  if (job.tool.has_value()) return WriteCall(job, session, *job.tool);
  return job.listed.empty() ? WriteWords(job, session)
                            : AnswerListed(job, session);
}

Result<bool> ChatWorker::OpenCall(const ChatJob& job,
                                  engine::Session& session) const {
  const std::span<const Token> opening(job.call_opening);
  const std::vector<Token>& preamble = job.plan.preamble;
  const auto shared =
      static_cast<size_t>(std::mismatch(opening.begin(), opening.end(),
                                        preamble.begin(), preamble.end())
                              .first -
                          opening.begin());
  if (shared == opening.size()) return true;
  // The model has the choice at the first token that a call has and an answer
  // hasn't. A family whose calls open another way never calls by itself.
  if (shared < preamble.size() ||
      MostLikely(session.logits()) != opening[shared]) {
    return false;
  }
  NEXUS_RETURN_IF_ERROR(
      session.Append(opening.subspan(shared), llm::Logits::kLast));
  return true;
}

Result<ChatResult> ChatWorker::AnswerListed(ChatJob& job,
                                            engine::Session& session) {
  for (int searches = 0;; ++searches) {
    NEXUS_ASSIGN_OR_RETURN(const bool calls, OpenCall(job, session));
    if (!calls) return WriteWords(job, session);
    const bool may_search =
        job.finder.has_value() && searches < kMaxToolSearches;
    // The finder is the first of the list.
    const std::span<const schema::ToolSchema> open =
        std::span(job.listed)
            .subspan(job.finder.has_value() && !may_search ? 1 : 0);
    if (open.empty()) {
      return ResourceExhaustedError(
          "the context has no room for a tool behind the search for it");
    }
    NEXUS_ASSIGN_OR_RETURN(
        const auto caller,
        engine::ListCaller::Create(engine_, open, options_.call_tokens));
    NEXUS_ASSIGN_OR_RETURN(
        const engine::ListCaller::Choice choice,
        caller->Choose(session, job.plan.history.size() + job.plan.block.size(),
                       job.plan.user));
    job.plan.space_before_arguments = choice.space_follows;
    if (!may_search || choice.tool != 0) {
      return WriteCall(job, session, open[choice.tool]);
    }
    NEXUS_RETURN_IF_ERROR(SearchMore(job, session));
  }
}

Status ChatWorker::SearchMore(ChatJob& job, engine::Session& session) {
  constexpr int kQueryTokens = 48;
  const schema::ToolSchema& finder = *job.finder;
  NEXUS_ASSIGN_OR_RETURN(
      const engine::GeneratedCall made,
      generator_.Generate(session, job.plan, engine_->planner(), finder,
                          {.max_tokens = kQueryTokens, .repair = false}));
  job.search_tokens += made.sampled_tokens;
  std::string query;
  if (made.arguments.is_object()) query = made.arguments.value("query", "");
  const auto search = [&](std::string_view text) {
    return SearchTools(router_, job.request, job.listed, text,
                       options_.found_tools);
  };
  NEXUS_ASSIGN_OR_RETURN(std::vector<schema::ToolSchema> found, search(query));
  if (found.empty()) {
    NEXUS_ASSIGN_OR_RETURN(found, search(LastUserText(job.request.messages)));
  }
  // Who must call something has something to call.
  if (found.empty() && job.listed.size() == 1) {
    found.push_back(job.request.tools.front());
  }
  // Room for the answer comes before another schema.
  int room = session.room() - options_.call_tokens / 4;
  size_t fitting = 0;
  for (; fitting < found.size(); ++fitting) {
    NEXUS_ASSIGN_OR_RETURN(const std::vector<Token> tokens,
                           engine_->planner().ListToolTokens(found[fitting]));
    room -= static_cast<int>(tokens.size());
    if (room < 0) break;
  }
  found.resize(fitting);
  Json names = Json::array();
  for (const schema::ToolSchema& tool : found) {
    names.push_back(schema::ToolId(tool));
  }
  job.search_report.push_back({{"query", query}, {"found", std::move(names)}});

  llm::ChatMessage call = {.role = "assistant"};
  call.tool_calls = {{.id = NewId("call_"),
                      .name = finder.name,
                      .arguments = DumpJson({{"query", query}})}};
  llm::ChatMessage answer = {.role = "tool", .content = FoundText(found)};
  answer.tool_call_id = call.tool_calls[0].id;
  answer.tool_name = finder.name;
  job.search_turns.push_back(std::move(call));
  job.search_turns.push_back(std::move(answer));
  job.listed.insert(job.listed.end(), found.begin(), found.end());

  std::vector<llm::ChatMessage> messages = job.request.messages;
  messages.insert(messages.end(), job.search_turns.begin(),
                  job.search_turns.end());
  NEXUS_ASSIGN_OR_RETURN(job.plan.user,
                         engine_->planner().ListTurnTokens(messages));
  NEXUS_ASSIGN_OR_RETURN(const engine::TierReport more,
                         session.Prepare(job.plan, options_.prepare));
  // How the list came into the context is what the first report says; what was
  // decoded for this is more of the same prompt.
  job.tier.prefilled_tokens += more.prefilled_tokens;
  job.tier.decode_ms += more.decode_ms;
  job.tier.reused_tokens =
      std::max(0, static_cast<int>(job.plan.TokenCount()) -
                      job.tier.restored_tokens - job.tier.spliced_tokens -
                      job.tier.recomputed_tokens - job.tier.prefilled_tokens);
  return Status::Ok();
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
      const std::shared_ptr<const engine::CallConstraint> constraint,
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
  NoteFirstToken(made.first_token_at, &job);
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
  options.top_logprobs = request.top_logprobs;
  ChatResult result;
  if (request.top_logprobs >= 0) result.logprobs = Json::array();
  options.on_text = [&](std::string_view piece,
                        std::span<const llm::LogprobRow> rows) {
    ChatEvent event;
    event.text = piece;
    if (request.top_logprobs >= 0) {
      event.logprobs = LogprobsJson(
          rows, [&](Token token) { return engine_->model().TokenText(token); });
      for (const Json& row : event.logprobs) result.logprobs.push_back(row);
    }
    job.Push(std::move(event));
  };
  NEXUS_ASSIGN_OR_RETURN(GeneratedAnswer answer,
                         GenerateAnswer(session, engine_->model(), options));
  NoteFirstToken(answer.first_token_at, &job);
  job.reply.role = "assistant";
  job.reply.content = answer.text;
  result.content = std::move(answer.text);
  result.finish_reason = answer.at_limit ? "length" : "stop";
  result.usage.completion_tokens = answer.sampled_tokens;
  return result;
}

}  // namespace nexus::serve
