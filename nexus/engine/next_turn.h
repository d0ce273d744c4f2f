// NextTurn: what is done for the next request while nobody waits.
//
// A schema is transient: clients send the conversation back without it. But the
// tokens behind it have read it, so its cells can't just be dropped: the exact
// prefix of the next turn ends where the schema began. Here the session goes
// back to that point and decodes the rest of the conversation as the client
// will send it; with that a spliced session is exact again (healed). Then the
// schemas of tools that may be wanted soon are decoded behind it, the likely
// next one last: if it is the right one, the next turn's tier is exact-prefix.
// Of each the session keeps the cells, so that a later turn splices from this
// conversation (conversation_blocks.h).
#ifndef NEXUS_ENGINE_NEXT_TURN_H_
#define NEXUS_ENGINE_NEXT_TURN_H_

#include <atomic>
#include <span>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/engine/prompt_plan.h"
#include "nexus/engine/session.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::engine {

// A request waits for one piece at most.
inline constexpr size_t kIdlePieceTokens = 32;

struct NextTurnOptions {
  const schema::ToolSchema* likely_tool = nullptr;  // null: history only
  // Others to keep the cells of, the most wanted first: the tool that was just
  // spliced, or the next of the forecast.
  std::vector<const schema::ToolSchema*> keep_tools = {};
  // Looked at between pieces. What is done by then stays and is used.
  const std::atomic<bool>* cancel = nullptr;
};

struct NextTurnReport {
  int reused_tokens = 0;
  int decoded_tokens = 0;
  int pieces = 0;
  double longest_piece_ms = 0;
  bool history_ready = false;
  bool tool_ready = false;
  int kept_tools = 0;
};

// `messages`: the conversation with the call and its result, as the client will
// send it back before its next user turn. kCancelled is no error here: the
// report says how far it came. kResourceExhausted when the conversation has
// outgrown the context.
Result<NextTurnReport> PrepareNextTurn(
    Session& session, const PromptPlanner& planner,
    std::span<const llm::ChatMessage> messages, const NextTurnOptions& options);

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_NEXT_TURN_H_
