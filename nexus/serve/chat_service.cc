#include "nexus/serve/chat_service.h"

#include <algorithm>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/base/hash.h"
#include "nexus/engine/next_turn.h"
#include "nexus/engine/prompt_plan.h"
#include "nexus/serve/answer_generator.h"
#include "nexus/serve/call_ids.h"
#include "nexus/serve/report_json.h"
#include "nexus/serve/stop_filter.h"

namespace nexus::serve {
namespace {

using engine::PromptPlan;
using llm::ChatMessage;
using std::chrono::nanoseconds;

// Names come from clients: what was counted is forgotten before it can fill the
// memory.
constexpr int kMaxForecastNotes = 10000;

double Since(nanoseconds start) {
  return Milliseconds(Clock::Monotonic().Now() - start);
}

// Requests of one conversation take turns with those of others. What all of its
// requests have in common is how it began.
uint64_t ConversationKey(const std::vector<ChatMessage>& messages) {
  std::string beginning;
  for (const ChatMessage& message : messages) {
    beginning += message.role + '\0' + message.content + '\0';
    if (message.role == "user") break;
  }
  return Xxh3(beginning.data(), beginning.size());
}

std::string_view LastUserText(const std::vector<ChatMessage>& messages) {
  const auto last =
      std::find_if(messages.rbegin(), messages.rend(),
                   [](const auto& message) { return message.role == "user"; });
  return last == messages.rend() ? std::string_view() : last->content;
}

// The tool that was called last; empty: none.
std::string LastCall(const std::vector<ChatMessage>& messages) {
  for (auto it = messages.rbegin(); it != messages.rend(); ++it) {
    if (!it->tool_calls.empty()) return it->tool_calls.back().name;
  }
  return {};
}

const schema::ToolSchema* FindTool(const ChatRequest& request,
                                   std::string_view name) {
  for (const schema::ToolSchema& tool : request.tools) {
    if (tool.name == name) return &tool;
  }
  return nullptr;
}

// A prompt that is too long is the request's fault, where a full queue isn't.
ApiError ErrorOfWork(const Status& status) {
  if (status.code() == StatusCode::kResourceExhausted) {
    ApiError error = BadField("messages", status.message());
    error.code = "context_length_exceeded";
    return error;
  }
  return FromStatus(status);
}

}  // namespace

struct ChatService::Job {
  ChatRequest request;
  uint64_t key = 0;
  std::vector<llm::Token> conversation;
  nanoseconds arrived_at{0};
  std::shared_ptr<ChatStream> stream;

  // Empty: an answer in words.
  std::optional<schema::ToolSchema> tool;
  std::optional<route::RouteDecision> decision;
  double route_ms = 0;

  uint64_t lease = 0;
  PromptPlan plan;
  engine::TierReport tier;
  double queue_ms = 0;
  double plan_ms = 0;
  double prepare_ms = 0;
  double ttft_ms = 0;
  Json call_report;  // null: no call
  ChatMessage reply;

  void Push(ChatEvent event) const { stream->Push(std::move(event)); }
};

ChatService::ChatService(const engine::Engine* engine, ToolRouter* router,
                         ChatServiceOptions options)
    : engine_(engine),
      router_(router),
      options_(std::move(options)),
      sessions_(engine, options_.sessions),
      generator_(&engine->model()),
      scheduler_(options_.scheduler) {}

ChatService::~ChatService() { Stop(); }

SessionCacheCounts ChatService::session_counts() const {
  MutexLock lock(mutex_);
  return session_counts_;
}

Status ChatService::ChooseTool(Job* job) const {
  const ChatRequest& request = job->request;
  if (request.tools.empty() || request.tool_choice == ToolChoice::kNone) {
    return Status::Ok();
  }
  if (request.tool_choice == ToolChoice::kNamed) {
    job->tool = *FindTool(request, request.named_tool);
    return Status::Ok();
  }
  const bool must_call = request.tool_choice == ToolChoice::kRequired;
  // The router knows what the user wants, not what is still missing: after a
  // result it would choose the same tool for ever.
  if (!must_call && request.messages.back().role != "user") {
    return Status::Ok();
  }
  const auto start = Clock::Monotonic().Now();
  NEXUS_ASSIGN_OR_RETURN(
      job->decision,
      router_->Route(request.tools, LastUserText(request.messages), {}));
  job->route_ms = Since(start);
  const route::RouteDecision& decision = *job->decision;
  if (!decision.candidates.empty() &&
      (must_call || decision.outcome != route::Outcome::kAbstain)) {
    job->tool = decision.tool(decision.candidates.front());
  } else if (must_call) {
    job->tool = request.tools.front();
  }
  return Status::Ok();
}

std::optional<ApiError> ChatService::Submit(ChatRequest request,
                                            Accepted* accepted) {
  auto job = std::make_shared<Job>();
  job->arrived_at = Clock::Monotonic().Now();
  job->request = std::move(request);
  job->key = ConversationKey(job->request.messages);
  job->stream = std::make_shared<ChatStream>();
  auto conversation = engine_->planner().HistoryTokens(job->request.messages);
  if (!conversation.ok()) return FromStatus(conversation.status());
  job->conversation = *std::move(conversation);
  if (const Status chosen = ChooseTool(job.get()); !chosen.ok()) {
    return FromStatus(chosen);
  }
  auto ticket =
      scheduler_.Submit(job->key, [this, job](Ticket& own) { Run(job, own); });
  if (!ticket.ok()) {
    ApiError error = FromStatus(ticket.status());
    error.retry_after_s = scheduler_.RetryAfterSeconds();
    return error;
  }
  accepted->stream = job->stream;
  accepted->ticket = *std::move(ticket);
  return std::nullopt;
}

void ChatService::Run(const std::shared_ptr<Job>& job, Ticket& ticket) {
  job->queue_ms = Since(job->arrived_at) - job->route_ms;
  const auto fail = [&](const Status& status) {
    ChatEvent event;
    event.kind = ChatEvent::Kind::kFailed;
    event.error = ErrorOfWork(ticket.is_cancelled() ? ticket.status() : status);
    job->Push(std::move(event));
  };
  if (ticket.is_cancelled()) return fail(ticket.status());
  auto held = sessions_.Acquire(job->conversation);
  if (!held.ok()) return fail(held.status());
  job->lease = (*held)->lease;
  engine::Session& session = *(*held)->session;
  ticket.SetInterrupt([&session] { session.context().Cancel(); });
  const Status done =
      job->tool.has_value() ? Call(*job, session) : Answer(*job, session);
  ticket.SetInterrupt({});
  session.context().ResetCancel();
  {
    MutexLock lock(mutex_);
    session_counts_ = sessions_.counts();
  }
  if (!done.ok()) {
    if (done.code() == StatusCode::kInternal) sessions_.Drop(job->lease);
    return fail(done);
  }
  if (!options_.idle_work) return;
  scheduler_.SetIdle(job->key, [this, job](Ticket& own) {
    HeldSession* mine = sessions_.Find(job->lease);
    if (mine == nullptr) return true;
    llm::Context& context = mine->session->context();
    own.SetInterrupt([&context] { context.Cancel(); });
    // What can't be prepared is prefilled by the next request.
    [[maybe_unused]] const Status ignored = Idle(*job, *mine->session, own);
    own.SetInterrupt({});
    context.ResetCancel();
    return !own.is_cancelled();
  });
}

Status ChatService::Call(Job& job, engine::Session& session) {
  const ChatRequest& request = job.request;
  const engine::PromptPlanner& planner = engine_->planner();
  const schema::ToolSchema& tool = *job.tool;
  auto start = Clock::Monotonic().Now();
  if (request.messages.back().role == "user") {
    NEXUS_ASSIGN_OR_RETURN(
        job.plan, planner.PlanCall(request.messages, {&tool, 1},
                                   engine::ArgumentMode::kSchema, tool.name));
  } else {
    // Behind a tool's result there is no user turn to keep at the end.
    job.plan.history = job.conversation;
    NEXUS_ASSIGN_OR_RETURN(
        job.plan.block,
        planner.BlockTokens({&tool, 1}, engine::ArgumentMode::kSchema));
    NEXUS_ASSIGN_OR_RETURN(
        job.plan.preamble,
        planner.PreambleTokens(tool.name, &job.plan.space_before_arguments));
  }
  job.plan_ms = Since(start);
  start = Clock::Monotonic().Now();
  NEXUS_ASSIGN_OR_RETURN(job.tier, session.Prepare(job.plan, options_.prepare));
  job.prepare_ms = Since(start);

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
  StopFilter whole_characters({});
  bool has_begun = false;
  const auto push_arguments = [&](std::string text) {
    if (!has_begun) text.erase(0, text.find_first_not_of(' '));
    if (text.empty()) return;
    has_begun = true;
    ChatEvent event;
    event.kind = ChatEvent::Kind::kCallArguments;
    event.text = std::move(text);
    job.Push(std::move(event));
  };
  engine::CallOptions options;
  options.max_tokens = request.max_tokens.value_or(options_.call_tokens);
  options.temperature = request.temperature;
  options.seed = request.seed;
  options.repair = !live;
  if (live) {
    options.on_text = [&](std::string_view piece) {
      push_arguments(whole_characters.Feed(piece));
    };
  }
  NEXUS_ASSIGN_OR_RETURN(
      const engine::GeneratedCall made,
      generator_.Generate(session, job.plan, planner, tool, options));
  job.ttft_ms = Milliseconds(made.first_token_at - job.arrived_at);
  push_arguments(live ? whole_characters.Flush() : made.text);

  call.arguments = made.text;
  call.arguments.erase(0, call.arguments.find_first_not_of(' '));
  job.reply.role = "assistant";
  // A template must be able to write it into the next prompt.
  job.reply.tool_calls = {call};
  if (!made.arguments.is_object()) job.reply.tool_calls[0].arguments = "{}";
  job.call_report = {{"tool", schema::ToolId(tool)},
                     {"valid", made.valid},
                     {"invalid_reason", made.invalid_reason},
                     {"repair_rounds", made.repair_rounds},
                     {"closed_at_limit", made.closed_at_limit},
                     {"relaxed", made.relaxed}};
  if (const std::string last = LastCall(request.messages); !last.empty()) {
    forecast_.Note(last, tool.name);
    if (++forecast_notes_ >= kMaxForecastNotes) {
      forecast_ = {};
      forecast_notes_ = 0;
    }
  }
  ChatResult result;
  result.tool_calls = {std::move(call)};
  result.finish_reason = made.arguments.is_null() ? "length" : "tool_calls";
  result.usage.completion_tokens = made.sampled_tokens;
  Finish(job, std::move(result), /*is_call=*/true);
  return Status::Ok();
}

Result<std::string> ChatService::FormatGrammar(
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

Status ChatService::Answer(Job& job, engine::Session& session) {
  const ChatRequest& request = job.request;
  auto start = Clock::Monotonic().Now();
  NEXUS_ASSIGN_OR_RETURN(job.plan,
                         engine_->planner().PlanAnswer(request.messages));
  job.plan_ms = Since(start);
  start = Clock::Monotonic().Now();
  NEXUS_ASSIGN_OR_RETURN(job.tier, session.Prepare(job.plan, options_.prepare));
  job.prepare_ms = Since(start);

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
  Finish(job, std::move(result), /*is_call=*/false);
  return Status::Ok();
}

void ChatService::Finish(Job& job, ChatResult result, bool is_call) {
  const double total_ms = Since(job.arrived_at);
  result.usage.prompt_tokens = static_cast<int>(job.plan.TokenCount());
  result.usage.cached_tokens = job.tier.reused_tokens +
                               job.tier.restored_tokens +
                               job.tier.spliced_tokens;
  if (job.request.wants_report) {
    Json report = TierJson(job.tier);
    report["mode"] = std::string(ToolsModeName(ToolsMode::kRoute));
    report["route"] =
        job.decision.has_value() ? RouteJson(*job.decision) : Json(nullptr);
    report["call"] = job.call_report;
    report["tokens"] = {{"history", job.plan.history.size()},
                        {"block", job.plan.block.size()},
                        {"user", job.plan.user.size()},
                        {"preamble", job.plan.preamble.size()},
                        {"sampled", result.usage.completion_tokens}};
    Json& ms = report["ms"];
    ms["queue"] = job.queue_ms;
    ms["route"] = job.route_ms;
    ms["plan"] = job.plan_ms;
    ms["prepare"] = job.prepare_ms;
    ms["ttft"] = job.ttft_ms;
    ms["total"] = total_ms;
    result.report = std::move(report);
  }
  if (options_.on_outcome) {
    options_.on_outcome({.is_call = is_call,
                         .tier = job.tier,
                         .usage = result.usage,
                         .queue_ms = job.queue_ms,
                         .ttft_ms = job.ttft_ms,
                         .total_ms = total_ms});
  }
  ChatEvent event;
  event.kind = ChatEvent::Kind::kDone;
  event.result = std::move(result);
  job.Push(std::move(event));
}

Status ChatService::Idle(const Job& job, engine::Session& session,
                         Ticket& ticket) {
  std::vector<ChatMessage> messages = job.request.messages;
  messages.push_back(job.reply);
  engine::NextTurnOptions next;
  next.cancel = ticket.flag();
  if (job.tool.has_value()) {
    // The next message is the tool's result: no schema is wanted behind this.
    NEXUS_RETURN_IF_ERROR(session.Learn(job.plan, *job.tool).status());
    NEXUS_RETURN_IF_ERROR(session.Remember(job.plan, *job.tool).status());
  } else {
    // What was called in this conversation may be called again; what followed
    // it in others is the best guess for the very next.
    const std::string last = LastCall(messages);
    if (!last.empty() && job.request.tool_choice != ToolChoice::kNone) {
      next.likely_tool = FindTool(job.request, forecast_.Next(last));
      const schema::ToolSchema* same = FindTool(job.request, last);
      if (same != nullptr) next.keep_tools.push_back(same);
    }
  }
  return engine::PrepareNextTurn(session, engine_->planner(), messages, next)
      .status();
}

}  // namespace nexus::serve
