// The prompt of a job, by its tools and its mode. On the caller's thread, so
// that the inference thread needn't render and tokenise.
#ifndef NEXUS_SERVE_CHAT_PLAN_H_
#define NEXUS_SERVE_CHAT_PLAN_H_

#include "nexus/base/status.h"
#include "nexus/engine/engine.h"
#include "nexus/serve/chat_job.h"

namespace nexus::serve {

// Fills the job's plan, and what AnswerListed needs beside it. The tool must be
// chosen, the list made and the conversation's tokens there. Thread-safe.
Status PlanJob(const engine::Engine& engine, ChatJob* job);

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_CHAT_PLAN_H_
