#include "nexus/engine/next_turn_bench.h"

#include <algorithm>
#include <exception>
#include <map>

#include "nexus/base/clock.h"
#include "nexus/base/file_system.h"
#include "nexus/base/json_lines.h"
#include "nexus/base/median.h"
#include "nexus/engine/next_turn.h"
#include "nexus/engine/session.h"
#include "nexus/engine/tool_forecast.h"

namespace nexus::engine {
namespace {

using llm::ChatMessage;

using ToolIndex = std::map<std::string, const schema::ToolSchema*>;

class Replay {
 public:
  Replay(const Engine& engine, const ToolIndex& tools,
         const ToolForecast& known)
      : engine_(engine), tools_(tools), forecast_(known) {}

  // One conversation twice, in sessions of their own: with idle work before
  // each next turn, and without.
  Status Run(const ReplayConversation& conversation,
             NextTurnBenchResult* result) {
    NEXUS_ASSIGN_OR_RETURN(auto with_idle, Session::Create(&engine_));
    NEXUS_ASSIGN_OR_RETURN(auto without, Session::Create(&engine_));
    std::vector<ChatMessage> messages;
    const ReplayTurn* before = nullptr;
    for (const ReplayTurn& turn : conversation) {
      if (before != nullptr) {
        const std::string guess = forecast_.Next(before->tool);
        const auto likely = tools_.find(guess);
        NextTurnOptions options;
        if (likely != tools_.end()) options.likely_tool = likely->second;
        NEXUS_ASSIGN_OR_RETURN(
            const NextTurnReport report,
            PrepareNextTurn(*with_idle, engine_.planner(), messages, options));
        result->idle_tokens += report.decoded_tokens;
        result->longest_piece_ms =
            std::max(result->longest_piece_ms, report.longest_piece_ms);
      }
      messages.push_back({.role = "user", .content = turn.user});
      NEXUS_ASSIGN_OR_RETURN(
          const PromptPlan plan,
          engine_.planner().PlanCall(messages, {tools_.at(turn.tool), 1},
                                     ArgumentMode::kSchema, turn.tool));
      NEXUS_ASSIGN_OR_RETURN(const TierReport idle,
                             Time(*with_idle, plan, before, &idle_ms_));
      NEXUS_RETURN_IF_ERROR(
          Time(*without, plan, before, &no_idle_ms_).status());
      if (before != nullptr) {
        ++result->replayed_turns;
        result->exact_prefix += idle.tier == Tier::kExactPrefix ? 1 : 0;
      }
      AddAnswer(turn, &messages);
      before = &turn;
    }
    result->ttft_idle_ms = Median(idle_ms_);
    result->ttft_no_idle_ms = Median(no_idle_ms_);
    return Status::Ok();
  }

 private:
  Result<TierReport> Time(Session& session, const PromptPlan& plan,
                          const ReplayTurn* before,
                          std::vector<double>* times) {
    const auto begin = Clock::Monotonic().Now();
    NEXUS_ASSIGN_OR_RETURN(TierReport report, session.Prepare(plan, {}));
    const double elapsed = Milliseconds(Clock::Monotonic().Now() - begin);
    // The first turn has no idle time before it.
    if (before != nullptr) times->push_back(elapsed);
    return report;
  }

  static void AddAnswer(const ReplayTurn& turn,
                        std::vector<ChatMessage>* messages) {
    ChatMessage call = {.role = "assistant"};
    call.tool_calls.push_back({.id = "call",
                               .name = turn.tool,
                               .arguments = DumpJson(turn.arguments)});
    messages->push_back(std::move(call));
    messages->push_back({.role = "tool",
                         .content = turn.result,
                         .tool_calls = {},
                         .tool_call_id = "call",
                         .tool_name = turn.tool});
  }

  const Engine& engine_;
  const ToolIndex& tools_;
  const ToolForecast& forecast_;
  std::vector<double> idle_ms_;
  std::vector<double> no_idle_ms_;
};

Result<ReplayConversation> ParseConversation(const Json& json,
                                             const std::string& source) {
  try {
    ReplayConversation conversation;
    for (const Json& turn : json.at("turns")) {
      conversation.push_back(
          {.user = turn.at("user").get<std::string>(),
           .tool = turn.at("tool").get<std::string>(),
           .arguments = turn.value("arguments", Json::object()),
           .result = turn.value("result", std::string("{}"))});
    }
    return conversation;
  } catch (const std::exception& error) {
    return InvalidArgumentError(
        source +
        ": expected {\"turns\": [{\"user\", \"tool\", \"arguments\"?, "
        "\"result\"?}]} (" +
        error.what() + ")");
  }
}

}  // namespace

Result<std::vector<ReplayConversation>> ReadConversations(
    const std::string& path) {
  NEXUS_ASSIGN_OR_RETURN(const std::string text,
                         FileSystem::Default().ReadFile(path));
  std::vector<ReplayConversation> conversations;
  NEXUS_RETURN_IF_ERROR(ForEachJsonLine(
      text, path,
      [&](const Json& json, const std::string& source, size_t) -> Status {
        NEXUS_ASSIGN_OR_RETURN(ReplayConversation conversation,
                               ParseConversation(json, source));
        conversations.push_back(std::move(conversation));
        return Status::Ok();
      }));
  return conversations;
}

Result<NextTurnBenchResult> RunNextTurnBench(
    const Engine& engine, const NextTurnBenchOptions& options) {
  ToolIndex tools;
  for (const schema::ToolSchema& tool : options.tools) {
    tools.emplace(tool.name, &tool);
  }
  NextTurnBenchResult result;
  result.conversations = static_cast<int>(options.conversations.size());
  ToolForecast forecast;
  for (const ReplayConversation& conversation : options.conversations) {
    for (size_t i = 0; i < conversation.size(); ++i) {
      if (!tools.contains(conversation[i].tool)) {
        return NotFoundError("conversations: tool '" + conversation[i].tool +
                             "' isn't in the registry");
      }
      if (i == 0) continue;
      const std::string& before = conversation[i - 1].tool;
      ++result.next_turns;
      result.foreseen += forecast.Next(before) == conversation[i].tool ? 1 : 0;
      result.same_tool += before == conversation[i].tool ? 1 : 0;
    }
    for (size_t i = 1; i < conversation.size(); ++i) {
      forecast.Note(conversation[i - 1].tool, conversation[i].tool);
    }
  }
  std::vector<const ReplayConversation*> longest;
  for (const ReplayConversation& conversation : options.conversations) {
    if (conversation.size() > 1) longest.push_back(&conversation);
  }
  std::stable_sort(longest.begin(), longest.end(),
                   [](auto* a, auto* b) { return a->size() > b->size(); });
  const size_t count = std::min(
      longest.size(), static_cast<size_t>(std::max(options.replay, 0)));
  // The model is asked with what the forecast knows after all of them: how
  // often it is right is counted above, without that.
  Replay replay(engine, tools, forecast);
  for (size_t i = 0; i < count; ++i) {
    if (options.cancel != nullptr && options.cancel->load()) {
      return CancelledError("interrupted");
    }
    if (options.progress) {
      options.progress(static_cast<int>(i), static_cast<int>(count));
    }
    NEXUS_RETURN_IF_ERROR(replay.Run(*longest[i], &result));
  }
  return result;
}

}  // namespace nexus::engine
