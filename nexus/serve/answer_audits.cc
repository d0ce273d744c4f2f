#include "nexus/serve/answer_audits.h"

#include <utility>

#include "nexus/schema/tool_schema.h"

namespace nexus::serve {

void AnswerAudits::Note(const ChatJob& job, const engine::Session& session,
                        std::span<const llm::Token> forgotten) {
  if (session.spliced_block() == nullptr || !job.tool.has_value() ||
      !engine::CountTowardsAudit(*engine_->store(), job.tier, options_.every)) {
    return;
  }
  waiting_.push_back(
      {.request_id = job.request.id,
       .tool = schema::ToolId(*job.tool),
       .request = engine::AuditRequestFor(session, job.plan, job.tier,
                                          options_.budget, forgotten)});
  if (waiting_.size() > kMaxWaiting) waiting_.pop_front();
}

void AnswerAudits::Run(Ticket& ticket) {
  while (!waiting_.empty() && !ticket.is_cancelled()) {
    Waiting& next = waiting_.front();
    next.request.on_context = [&ticket](llm::Context* context) {
      ticket.SetInterrupt(context == nullptr
                              ? std::function<void()>()
                              : [context] { context->Cancel(); });
    };
    Result<engine::AuditReport> report =
        engine::AuditSplice(*engine_, next.request);
    if (ticket.is_cancelled()) return;
    if (options_.on_audit) {
      options_.on_audit({.request_id = std::move(next.request_id),
                         .tool = std::move(next.tool),
                         .report = std::move(report)});
    }
    waiting_.pop_front();
  }
}

}  // namespace nexus::serve
