// AnswerAudits: one spliced answer in N is compared with a full prefill, when
// nobody waits (engine/audit.h).
//
// What is due waits here, not with its conversation: that may send its next
// request before there is time.
#ifndef NEXUS_SERVE_ANSWER_AUDITS_H_
#define NEXUS_SERVE_ANSWER_AUDITS_H_

#include <deque>
#include <functional>
#include <span>
#include <string>

#include "nexus/engine/audit.h"
#include "nexus/engine/engine.h"
#include "nexus/engine/session.h"
#include "nexus/serve/chat_job.h"
#include "nexus/serve/scheduler.h"

namespace nexus::serve {

struct AuditOutcome {
  std::string request_id;
  std::string tool;
  Result<engine::AuditReport> report;
};

struct AnswerAuditOptions {
  int every = 0;  // spliced answers to one audit; 0: none
  engine::Budget budget = engine::kDefaultBudget;
  // Called on the inference thread.
  std::function<void(const AuditOutcome&)> on_audit;
};

// Owned by the inference thread. The engine must outlive it.
class AnswerAudits {
 public:
  AnswerAudits(const engine::Engine* engine, AnswerAuditOptions options)
      : engine_(engine), options_(std::move(options)) {}

  // After an answer, while the session still ends with it, but for what it has
  // `forgotten` (Session::LeaveBatch): takes what an audit needs, if one is
  // due.
  void Note(const ChatJob& job, const engine::Session& session,
            std::span<const llm::Token> forgotten);

  // Runs what waits, in a context of its own for each. Once the ticket is
  // cancelled it stops within one piece of work; what it was at waits on.
  void Run(Ticket& ticket);

  size_t waiting() const { return waiting_.size(); }

  // Each holds its prompt's tokens and a mapped block. Beyond this the oldest
  // is dropped: a server that is never idle audits nothing.
  static constexpr size_t kMaxWaiting = 8;

 private:
  struct Waiting {
    std::string request_id;
    std::string tool;
    engine::AuditRequest request;
  };

  const engine::Engine* const engine_;
  const AnswerAuditOptions options_;
  std::deque<Waiting> waiting_;
};

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_ANSWER_AUDITS_H_
