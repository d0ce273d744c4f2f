#include "nexus/engine/call_bench.h"

#include <array>
#include <set>
#include <string_view>
#include <utility>

#include "nexus/engine/session.h"

namespace nexus::engine {
namespace {

// Vague on purpose: what isn't stated the model must make up within the schema.
constexpr std::array<std::string_view, 6> kQuestions = {
    "Please do this for me: ",
    "Use whatever values seem right. ",
    "I need every option of this set, as an example: ",
    "Do it for Busan, Zürich and \"São Paulo\" at once, quoting the names: ",
    "Only the required things, please. ",
    "지금 해 주세요: ",
};

std::string FirstSentence(const std::string& text) {
  const size_t end = text.find_first_of(".\n");
  return text.substr(0, end == std::string::npos ? 200 : end);
}

}  // namespace

Result<CallBenchResult> RunCallBench(const Engine& engine,
                                     const CallBenchOptions& options) {
  if (options.tools.empty()) {
    return InvalidArgumentError("bench calls: the registry has no tools");
  }
  NEXUS_ASSIGN_OR_RETURN(auto session, Session::Create(&engine));
  CallGenerator generator(&engine.model());
  CallBenchResult result;
  std::set<std::string> relaxed;
  for (int i = 0; i < options.calls; ++i) {
    if (options.cancel != nullptr && options.cancel->load()) {
      return CancelledError("interrupted after " + std::to_string(i) +
                            " calls");
    }
    const auto index = static_cast<size_t>(i);
    const schema::ToolSchema& tool =
        options.tools[index % options.tools.size()];
    const std::string_view question =
        kQuestions[(index / options.tools.size() + index) % kQuestions.size()];
    const std::vector<llm::ChatMessage> messages = {
        {.role = "user",
         .content = std::string(question) + FirstSentence(tool.description)}};
    NEXUS_ASSIGN_OR_RETURN(const PromptPlan plan,
                           engine.planner().PlanCall(messages, {&tool, 1},
                                                     options.mode, tool.name));
    NEXUS_RETURN_IF_ERROR(session->Prepare(plan, {}).status());
    CallOptions call_options;
    call_options.max_tokens = options.max_tokens;
    call_options.seed = static_cast<uint32_t>(i + 1);
    call_options.temperature = (index + index / options.tools.size()) % 2 == 0
                                   ? 0.0F
                                   : options.temperature;
    NEXUS_ASSIGN_OR_RETURN(const GeneratedCall call,
                           generator.Generate(*session, plan, engine.planner(),
                                              tool, call_options));
    ++result.calls;
    result.json_objects += call.arguments.is_object() ? 1 : 0;
    result.valid += call.valid ? 1 : 0;
    result.repaired += call.valid && call.repair_rounds > 0 ? 1 : 0;
    result.closed_at_limit += call.closed_at_limit ? 1 : 0;
    result.sampled_tokens += call.sampled_tokens;
    if (!call.relaxed.empty()) relaxed.insert(schema::ToolId(tool));
    if (!call.valid) {
      result.invalid.push_back(schema::ToolId(tool) + ": " +
                               call.invalid_reason);
    }
    if (options.progress) options.progress(i + 1, options.calls);
  }
  result.relaxed_tools = static_cast<int>(relaxed.size());
  return result;
}

}  // namespace nexus::engine
