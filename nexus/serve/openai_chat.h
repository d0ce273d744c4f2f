// Chat completions as OpenAI's clients write and read them: JSON to a typed
// request and a typed result to JSON, whole or as a stream of chunks. Pure: no
// model, no network.
//
// What can't be done is refused by name rather than left out silently; fields
// that change nothing here (user, metadata, store, ...) are passed over.
#ifndef NEXUS_SERVE_OPENAI_CHAT_H_
#define NEXUS_SERVE_OPENAI_CHAT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/json.h"
#include "nexus/llm/chat_template.h"
#include "nexus/schema/tool_schema.h"
#include "nexus/serve/answer_format.h"
#include "nexus/serve/api_error.h"

namespace nexus::serve {

inline constexpr size_t kMaxMessages = 4096;
inline constexpr size_t kMaxTools = 4096;
inline constexpr size_t kMaxStops = 16;

enum class ToolChoice { kAuto, kNone, kRequired, kNamed };

// How the request's tools come before the model.
enum class ToolsMode {
  kRoute,   // the router picks one, which is spliced late
  kPin,     // the whole list, in the system turn
  kHybrid,  // the best few of it, and a tool that finds the others
};
std::string_view ToolsModeName(ToolsMode mode);  // "route", "pin", "hybrid"
std::optional<ToolsMode> ParseToolsMode(std::string_view name);

enum class ResponseFormat { kText, kJsonObject, kJsonSchema };

// A function of a namespace, by the names that the client has for it.
struct NamespacedTool {
  std::string space;
  std::string name;
};

struct ChatRequest {
  std::string id;  // of the HTTP request, for logs
  std::string model;
  std::vector<llm::ChatMessage> messages;  // never empty
  std::vector<schema::ToolSchema> tools;
  ToolChoice tool_choice = ToolChoice::kAuto;
  std::string named_tool;  // with kNamed: one of `tools`
  // By their names in `tools`.
  std::map<std::string, NamespacedTool> namespaced;
  std::vector<std::string> left_out_tools;  // their types
  bool stream = false;
  bool include_usage = false;  // in a stream
  std::optional<int> max_tokens;
  float temperature = 0.0F;
  float top_p = 1.0F;
  uint32_t seed = 1;
  std::vector<std::string> stop;
  int top_logprobs = -1;  // of answers in words; < 0: no log probabilities
  ResponseFormat format = ResponseFormat::kText;
  Json format_schema;  // with kJsonSchema
  // Nexus's own: {"nexus": true} or {"nexus": {"tools": "pin"}}.
  bool wants_report = false;
  std::optional<ToolsMode> tools_mode;
};
// The first tool of that name; null: none.
const schema::ToolSchema* FindTool(const ChatRequest& request,
                                   std::string_view name);

// nullopt: `request` is filled. Else the first wrong field, named.
std::optional<ApiError> ParseChatRequest(const Json& body,
                                         ChatRequest* request);

struct ChatUsage {
  int prompt_tokens = 0;
  int completion_tokens = 0;
  int cached_tokens = 0;  // of the prompt, not decoded anew
};

struct ChatResult {
  std::string content;
  std::vector<llm::ToolCall> tool_calls;
  std::string finish_reason;  // "stop", "length", "tool_calls"
  ChatUsage usage;
  Json logprobs;  // of the content, as LogprobsJson; null: not asked for
  Json report;    // the `nexus` object; null: none
};

// What every object of one answer has in common.
struct ChatHead {
  std::string id;
  int64_t created = 0;
  std::string model;
};

Json ChatCompletionJson(const ChatHead& head, const ChatResult& result);

// The answer as chat completions have it.
class ChatChunks : public AnswerFormat {
 public:
  ChatChunks(ChatHead head, bool include_usage)
      : head_(std::move(head)), include_usage_(include_usage) {}

  Json Whole(const ChatResult& result) override {
    return ChatCompletionJson(head_, result);
  }
  std::string Text(std::string_view delta, const Json& logprobs) override;
  std::string CallBegin(const llm::ToolCall& call) override;
  std::string CallArguments(std::string_view delta) override;
  // The finish reason, the usage where it was asked for, and the end mark.
  std::string Finish(const ChatResult& result) override;
  std::string Fail(const ApiError& error) override;

 private:
  std::string Chunk(Json delta, const Json& logprobs = nullptr);
  Json Frame() const;

  const ChatHead head_;
  const bool include_usage_;
  bool has_role_ = false;
  int calls_ = 0;
};

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_OPENAI_CHAT_H_
