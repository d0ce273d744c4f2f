// ChatService: a chat request in, events out. What joins the engine's parts
// with the scheduler and the sessions.
//
//   caller's thread     conversation's tokens, route, plan, submit
//   inference thread    session -> tier -> call or answer -> events
//   later, when idle    learn, remember, prepare the next turn; audits
//
// With tools in the request (mode `route`) the router says which one is wanted,
// outside the context (tool_choice.h); its schema alone comes into the context,
// late and transient. When the router abstains the model answers in words. In
// mode `pin` all tools stand in the system turn, from exact stored cells where
// there are any, and the model chooses.
#ifndef NEXUS_SERVE_CHAT_SERVICE_H_
#define NEXUS_SERVE_CHAT_SERVICE_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nexus/engine/engine.h"
#include "nexus/engine/step_batch.h"
#include "nexus/engine/tool_forecast.h"
#include "nexus/serve/answer_audits.h"
#include "nexus/serve/chat_job.h"
#include "nexus/serve/chat_worker.h"
#include "nexus/serve/openai_chat.h"
#include "nexus/serve/scheduler.h"
#include "nexus/serve/session_cache.h"
#include "nexus/serve/session_store.h"
#include "nexus/serve/tool_finder.h"
#include "nexus/serve/tool_router.h"

namespace nexus::serve {

// One request that ended well, for metrics and logs.
struct ChatOutcome {
  std::string request_id;
  bool is_call = false;
  engine::TierReport tier;
  ChatUsage usage;
  double queue_ms = 0;
  double ttft_ms = 0;
  double total_ms = 0;
};

struct ChatServiceOptions {
  ToolsMode tools_mode = ToolsMode::kRoute;  // unless the request says another
  HybridOptions hybrid;
  engine::PrepareOptions prepare;
  SessionCacheOptions sessions;
  SchedulerOptions scheduler;
  // Requests at work at once: its members, each with a session. Null: one after
  // the other, bit-stable. Must outlive the service.
  engine::StepBatch* batch = nullptr;
  // Of a call's arguments, when the request has no limit.
  int call_tokens = 1024;
  // Learn, remember and prepare the next turn between requests.
  bool idle_work = true;
  // Idle work too, whatever idle_work says.
  int audit_every = 0;
  // Called on an inference thread, one at a time.
  std::function<void(const ChatOutcome&)> on_outcome;
  std::function<void(const AuditOutcome&)> on_audit;
};

// Thread-safe. Engine and router must outlive it.
class ChatService {
 public:
  ChatService(const engine::Engine* engine, ToolRouter* router,
              ChatServiceOptions options);
  ~ChatService();  // Stop()
  ChatService(const ChatService&) = delete;
  ChatService& operator=(const ChatService&) = delete;

  struct Accepted {
    std::shared_ptr<ChatStream> stream;
    // Cancelling it ends the work within one piece and gives kFailed.
    std::shared_ptr<Ticket> ticket;
  };
  // nullopt: events will come in accepted->stream, kDone or kFailed the last.
  // Else the request isn't taken, and why. The caller may have to wait for the
  // route; from then on whoever reads the stream looks after it.
  std::optional<ApiError> Submit(ChatRequest request, Accepted* accepted,
                                 const Caller& caller = {});

  SchedulerCounts scheduler_counts() const { return scheduler_.counts(); }
  engine::StepBatchCounts batch_counts() const {
    return options_.batch != nullptr ? options_.batch->counts()
                                     : engine::StepBatchCounts{};
  }
  // Of the last request that ended.
  SessionCacheCounts session_counts() const EXCLUDES(mutex_);

  // Cancels what runs and waits; takes no more.
  void Stop() { scheduler_.Stop(); }

  // The sessions of an earlier run; before the first Submit.
  SessionStoreReport LoadSessions(SessionStore& store) {
    return store.Load(engine_, &sessions_);
  }
  // Those of this run; after Stop.
  Result<SessionStoreReport> SaveSessions(SessionStore& store) {
    return store.Save(sessions_);
  }

 private:
  // All below on the inference thread, or with the turn.
  void Run(const std::shared_ptr<ChatJob>& job, Ticket& ticket);
  void Finish(ChatJob& job, ChatResult result);
  void SetIdle(const std::shared_ptr<ChatJob>& job);
  Status PrepareNext(const ChatJob& job, engine::Session& session,
                     Ticket& ticket);

  const engine::Engine* const engine_;
  ToolRouter* const router_;
  const ChatServiceOptions options_;

  // Of the inference thread, or of whoever has the turn.
  SessionCache sessions_;
  ChatWorker worker_;
  AnswerAudits audits_;
  engine::ToolForecast forecast_;
  int forecast_notes_ = 0;

  mutable Mutex mutex_;
  SessionCacheCounts session_counts_ GUARDED_BY(mutex_);

  // Last: its threads use all of the above.
  Scheduler scheduler_;
};

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_CHAT_SERVICE_H_
