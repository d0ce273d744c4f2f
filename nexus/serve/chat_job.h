// ChatJob: one request on its way through ChatService, and what was found out
// about it so far.
#ifndef NEXUS_SERVE_CHAT_JOB_H_
#define NEXUS_SERVE_CHAT_JOB_H_

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nexus/engine/prompt_plan.h"
#include "nexus/engine/tier.h"
#include "nexus/route/router.h"
#include "nexus/serve/chat_stream.h"
#include "nexus/serve/openai_chat.h"

namespace nexus::serve {

// Of one thread at a time: the caller's, then the inference thread.
struct ChatJob {
  ChatRequest request;
  ToolsMode mode = ToolsMode::kRoute;
  uint64_t key = 0;  // requests with the same take turns with others
  std::vector<llm::Token> conversation;
  std::chrono::nanoseconds arrived_at{0};
  std::chrono::nanoseconds submitted_at{0};
  std::chrono::nanoseconds prepared_at{0};
  std::shared_ptr<ChatStream> stream;

  // The one to call. Empty: an answer in words, or the model chooses.
  std::optional<schema::ToolSchema> tool;
  std::optional<route::RouteDecision> decision;
  std::string routed_text;  // what the decision was made from
  double route_ms = 0;

  uint64_t lease = 0;  // of the session
  engine::PromptPlan plan;
  // Modes with a list: the tools in the plan's order and those found later, and
  // how a call begins, up to the name, where the model may choose to call.
  std::vector<schema::ToolSchema> listed;
  std::vector<llm::Token> call_opening;
  // Mode kHybrid: the first of the list, and what was asked of it.
  std::optional<schema::ToolSchema> finder;
  std::vector<llm::ChatMessage> search_turns;
  int search_tokens = 0;
  Json search_report = Json::array();
  engine::TierReport tier;
  double queue_ms = 0;
  double plan_ms = 0;
  double prepare_ms = 0;
  // From there to the first sampled token: the grammar, the sampler, one
  // sample.
  double sample_ms = 0;
  double ttft_ms = 0;
  Json call_report;        // null: no call
  llm::ChatMessage reply;  // as the client will send it back

  void Push(ChatEvent event) const { stream->Push(std::move(event)); }
};

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_CHAT_JOB_H_
