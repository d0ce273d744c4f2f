// NextTurnBench: conversations replayed, to see how often idle work has the
// next turn's schema ready, and what it saves when it has.
#ifndef NEXUS_ENGINE_NEXT_TURN_BENCH_H_
#define NEXUS_ENGINE_NEXT_TURN_BENCH_H_

#include <atomic>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/engine/engine.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::engine {

struct ReplayTurn {
  std::string user;
  std::string tool;  // name, as in the registry
  Json arguments = Json::object();
  std::string result;
};
using ReplayConversation = std::vector<ReplayTurn>;

// JSON lines of {"turns": [{"user", "tool", "arguments"?, "result"?}]}. Errors
// name path and line.
Result<std::vector<ReplayConversation>> ReadConversations(
    const std::string& path);

struct NextTurnBenchOptions {
  std::vector<schema::ToolSchema> tools;
  std::vector<ReplayConversation> conversations;
  int replay = 4;  // conversations run on the model, the longest ones; 0: none
  std::function<void(int done, int total)> progress;
  const std::atomic<bool>* cancel = nullptr;
};

struct NextTurnBenchResult {
  int conversations = 0;
  int next_turns = 0;  // turns with a call that follow another one
  int foreseen = 0;    // of them: the forecast named the tool
  int same_tool = 0;   // of them: the tool of the turn before
  // On the model, over the replayed turns: time from the question to the first
  // token of the arguments.
  int replayed_turns = 0;
  int exact_prefix = 0;         // found their schema already exact
  double ttft_idle_ms = 0;      // median, idle work done before
  double ttft_no_idle_ms = 0;   // median, same turns without
  double longest_piece_ms = 0;  // what a request may have to wait for
  int idle_tokens = 0;          // decoded while nobody waited
};

// The forecast learns as it goes: a conversation is guessed from those before
// it. kNotFound: a turn's tool isn't in the registry.
Result<NextTurnBenchResult> RunNextTurnBench(
    const Engine& engine, const NextTurnBenchOptions& options);

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_NEXT_TURN_BENCH_H_
