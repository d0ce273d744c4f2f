// ChatWorker: writes the answer to one job in a session. The inference thread's
// part of ChatService.
#ifndef NEXUS_SERVE_CHAT_WORKER_H_
#define NEXUS_SERVE_CHAT_WORKER_H_

#include <string>

#include "nexus/base/result.h"
#include "nexus/engine/call_generator.h"
#include "nexus/engine/engine.h"
#include "nexus/engine/session.h"
#include "nexus/serve/chat_job.h"
#include "nexus/serve/tool_router.h"

namespace nexus::serve {

struct ChatWorkerOptions {
  engine::PrepareOptions prepare;
  // Of a call's arguments, when the request has no limit.
  int call_tokens = 1024;
  int found_tools = 3;  // HybridOptions::found
};

// Owned by the inference thread. Engine and router must outlive it.
class ChatWorker {
 public:
  ChatWorker(const engine::Engine* engine, ToolRouter* router,
             const ChatWorkerOptions& options)
      : engine_(engine),
        router_(router),
        options_(options),
        generator_(&engine->model()) {}

  // The job must be planned (chat_plan.h).
  // Pushes the answer's pieces as they come and returns it whole; fills the
  // job's accounts. kCancelled when the session's context is cancelled,
  // kResourceExhausted when the prompt doesn't fit.
  Result<ChatResult> Answer(ChatJob& job, engine::Session& session);

 private:
  Result<ChatResult> WriteWords(ChatJob& job, engine::Session& session);
  Result<ChatResult> WriteCall(ChatJob& job, engine::Session& session,
                               const schema::ToolSchema& tool);
  // Behind a list of tools: the model chooses.
  Result<ChatResult> AnswerListed(ChatJob& job, engine::Session& session);
  // Brings the session behind the opening of a call; false: the model prefers
  // words.
  Result<bool> OpenCall(const ChatJob& job, engine::Session& session) const;
  // The finder's call, its answer, and the prompt with both.
  Status SearchMore(ChatJob& job, engine::Session& session);
  Result<std::string> FormatGrammar(const ChatRequest& request) const;

  const engine::Engine* const engine_;
  ToolRouter* const router_;
  const ChatWorkerOptions options_;
  engine::CallGenerator generator_;
};

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_CHAT_WORKER_H_
