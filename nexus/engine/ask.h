// Asker: a question in, a routed, validated call out, with the account of what
// it took: route -> plan -> tier -> arguments.
#ifndef NEXUS_ENGINE_ASK_H_
#define NEXUS_ENGINE_ASK_H_

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/engine/call_generator.h"
#include "nexus/engine/engine.h"
#include "nexus/engine/session.h"
#include "nexus/engine/tier.h"
#include "nexus/route/router.h"

namespace nexus::engine {

struct AskOptions {
  ArgumentMode mode = ArgumentMode::kSchema;
  PrepareOptions prepare;
  CallOptions call;
  // Skips routing: this tool_id ("server/name") is called.
  std::string forced_tool;
  std::vector<std::string> servers;  // routing scope; empty: all
  // When the request arrived; zero: when Ask is entered. TTFT counts from here.
  std::chrono::nanoseconds arrived_at{0};
  // Told as soon as known, so that a terminal can show progress.
  std::function<void(const route::RouteDecision&)> on_route;
  std::function<void(const schema::ToolSchema&, const TierReport&)> on_prepared;
};

struct AskResult {
  route::RouteDecision decision;  // empty when a tool was forced
  // Unset: the router abstained, and nothing was generated.
  std::optional<schema::ToolSchema> tool;
  TierReport tier;
  GeneratedCall call;
  PromptPlan plan;
  double route_ms = 0;
  double plan_ms = 0;
  double prepare_ms = 0;
  // From arrival to the first *sampled* token, forced tokens included.
  double ttft_ms = 0;
  double total_ms = 0;
};

// Owned by one thread. All that it is made of must outlive it.
class Asker {
 public:
  Asker(const Engine* engine, Session* session, const route::Router* router)
      : engine_(engine),
        session_(session),
        router_(router),
        generator_(&engine->model()) {}

  // The last message must be the user's.
  Result<AskResult> Ask(std::span<const llm::ChatMessage> messages,
                        const AskOptions& options);

 private:
  Result<std::optional<schema::ToolSchema>> ChooseTool(
      const std::string& question, const AskOptions& options,
      AskResult* result) const;

  const Engine* engine_;
  Session* session_;
  const route::Router* router_;
  CallGenerator generator_;
};

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_ASK_H_
