#include "nexus/serve/chat_service.h"

#include <algorithm>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/base/hash.h"
#include "nexus/engine/list_prepare.h"
#include "nexus/engine/next_turn.h"
#include "nexus/serve/chat_plan.h"
#include "nexus/serve/report_json.h"
#include "nexus/serve/tool_choice.h"
#include "nexus/serve/tool_finder.h"

namespace nexus::serve {
namespace {

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

// The tool that was called last; empty: none.
std::string LastCall(const std::vector<ChatMessage>& messages) {
  for (auto it = messages.rbegin(); it != messages.rend(); ++it) {
    if (!it->tool_calls.empty()) return it->tool_calls.back().name;
  }
  return {};
}

ChatServiceOptions WithBatch(ChatServiceOptions options) {
  if (options.batch == nullptr) return options;
  const int members = options.batch->max_members();
  options.scheduler.max_running = static_cast<size_t>(members);
  options.sessions.max_sessions =
      std::max(options.sessions.max_sessions, members);
  return options;
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

ChatService::ChatService(const engine::Engine* engine, ToolRouter* router,
                         ChatServiceOptions options)
    : engine_(engine),
      router_(router),
      options_(WithBatch(std::move(options))),
      sessions_(engine, options_.sessions),
      worker_(engine, router,
              {.prepare = options_.prepare,
               .call_tokens = options_.call_tokens,
               .found_tools = options_.hybrid.found}),
      audits_(engine, {.every = options_.audit_every,
                       .budget = options_.prepare.budget,
                       .on_audit = options_.on_audit}),
      scheduler_(options_.scheduler) {}

ChatService::~ChatService() { Stop(); }

SessionCacheCounts ChatService::session_counts() const {
  MutexLock lock(mutex_);
  return session_counts_;
}

std::optional<ApiError> ChatService::Submit(ChatRequest request,
                                            Accepted* accepted,
                                            const Caller& caller) {
  const auto refuse = [this](const Status& status) {
    ApiError error = FromStatus(status);
    if (status.code() == StatusCode::kResourceExhausted) {
      error.retry_after_s = scheduler_.RetryAfterSeconds();
    }
    return error;
  };
  if (const Status room = scheduler_.Admit(); !room.ok()) return refuse(room);
  auto job = std::make_shared<ChatJob>();
  job->arrived_at = Clock::Monotonic().Now();
  job->request = std::move(request);
  job->mode = job->request.tools_mode.value_or(options_.tools_mode);
  job->key = ConversationKey(job->request.messages);
  job->stream = std::make_shared<ChatStream>();
  auto conversation = engine_->planner().HistoryTokens(job->request.messages);
  if (!conversation.ok()) return FromStatus(conversation.status());
  job->conversation = *std::move(conversation);
  if (const Status chosen = ChooseTool(router_, job.get(), caller);
      !chosen.ok()) {
    return FromStatus(chosen);
  }
  const bool has_list = job->mode != ToolsMode::kRoute &&
                        !job->request.tools.empty() &&
                        job->request.tool_choice != ToolChoice::kNone;
  if (has_list) {
    const Status listed =
        ListTools(router_, options_.hybrid, job.get(), caller);
    if (!listed.ok()) return FromStatus(listed);
  }
  if (const Status planned = PlanJob(*engine_, job.get()); !planned.ok()) {
    return FromStatus(planned);
  }
  job->submitted_at = Clock::Monotonic().Now();
  auto ticket =
      scheduler_.Submit(job->key, [this, job](Ticket& own) { Run(job, own); });
  if (!ticket.ok()) return refuse(ticket.status());
  accepted->stream = job->stream;
  accepted->ticket = *std::move(ticket);
  return std::nullopt;
}

void ChatService::Run(const std::shared_ptr<ChatJob>& job, Ticket& ticket) {
  const engine::Turn turn(options_.batch);
  job->queue_ms = Since(job->submitted_at);
  const auto fail = [&](const Status& status) {
    ChatEvent event;
    event.kind = ChatEvent::Kind::kFailed;
    event.error = ErrorOfWork(ticket.is_cancelled() ? ticket.status() : status);
    job->Push(std::move(event));
  };
  if (ticket.is_cancelled()) return fail(ticket.status());
  auto held =
      sessions_.Acquire(job->conversation, engine::AllTokens(job->plan));
  if (!held.ok()) return fail(held.status());
  job->lease = (*held)->lease;
  engine::Session& session = *(*held)->session;
  (*held)->is_busy = true;
  session.UseBatch(options_.batch);
  ticket.SetInterrupt([&session] { session.context().Cancel(); });
  auto answer = worker_.Answer(*job, session);
  const std::vector<llm::Token> forgotten = session.LeaveBatch();
  (*held)->is_busy = false;
  ticket.SetInterrupt({});
  session.context().ResetCancel();
  {
    MutexLock lock(mutex_);
    session_counts_ = sessions_.counts();
  }
  if (!answer.ok()) {
    if (answer.status().code() == StatusCode::kInternal) {
      sessions_.Drop(job->lease);
    }
    return fail(answer.status());
  }
  Finish(*job, *std::move(answer));
  // Counting writes to the store: the client has its answer by now.
  audits_.Note(*job, session, forgotten);
  if (options_.idle_work || audits_.waiting() > 0) SetIdle(job);
}

void ChatService::SetIdle(const std::shared_ptr<ChatJob>& job) {
  scheduler_.SetIdle(job->key, [this, job](Ticket& own) {
    const engine::Turn turn(options_.batch);
    HeldSession* mine = sessions_.Find(job->lease);
    if (options_.idle_work && mine != nullptr) {
      llm::Context& context = mine->session->context();
      own.SetInterrupt([&context] { context.Cancel(); });
      // What can't be prepared is prefilled by the next request.
      [[maybe_unused]] const Status ignored =
          PrepareNext(*job, *mine->session, own);
      own.SetInterrupt({});
      context.ResetCancel();
    }
    audits_.Run(own);
    return !own.is_cancelled();
  });
}

void ChatService::Finish(ChatJob& job, ChatResult result) {
  const double total_ms = Since(job.arrived_at);
  const std::string last = LastCall(job.request.messages);
  if (!last.empty() && !result.tool_calls.empty()) {
    forecast_.Note(last, result.tool_calls[0].name);
    if (++forecast_notes_ >= kMaxForecastNotes) {
      forecast_ = {};
      forecast_notes_ = 0;
    }
  }
  result.usage.completion_tokens += job.search_tokens;
  result.usage.prompt_tokens = static_cast<int>(job.plan.TokenCount());
  result.usage.cached_tokens = job.tier.reused_tokens +
                               job.tier.restored_tokens +
                               job.tier.spliced_tokens;
  if (job.request.wants_report) {
    Json report = TierJson(job.tier);
    report["mode"] = std::string(ToolsModeName(job.mode));
    report["batched"] = options_.batch != nullptr;
    report["route"] =
        job.decision.has_value() ? RouteJson(*job.decision) : Json(nullptr);
    if (job.decision.has_value()) report["route"]["query"] = job.routed_text;
    report["call"] = job.call_report;
    if (!job.request.left_out_tools.empty()) {
      report["left_out_tools"] = job.request.left_out_tools;
    }
    if (job.finder.has_value()) report["searches"] = job.search_report;
    report["tokens"] = PlanTokensJson(job.plan);
    report["tokens"]["sampled"] = result.usage.completion_tokens;
    Json& ms = report["ms"];
    ms["queue"] = job.queue_ms;
    ms["route"] = job.route_ms;
    ms["plan"] = job.plan_ms;
    ms["prepare"] = job.prepare_ms;
    ms["sample"] = job.sample_ms;
    ms["ttft"] = job.ttft_ms;
    ms["total"] = total_ms;
    result.report = std::move(report);
  }
  if (options_.on_outcome) {
    options_.on_outcome({.request_id = job.request.id,
                         .is_call = !result.tool_calls.empty(),
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

Status ChatService::PrepareNext(const ChatJob& job, engine::Session& session,
                                Ticket& ticket) {
  // The whole list stays in its place: what comes next stands behind it.
  if (!job.plan.pieces.empty()) return engine::StoreList(session, job.plan);
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
