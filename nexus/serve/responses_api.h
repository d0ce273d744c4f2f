// OpenAI's Responses API on the same work as chat completions: its JSON to a
// ChatRequest, and a ChatResult to its output items and events. Pure: no model,
// no network.
//
// Stateless: nothing is kept under a response's id, so a client sends the items
// of the conversation each time (as with `store: false` at OpenAI).
#ifndef NEXUS_SERVE_RESPONSES_API_H_
#define NEXUS_SERVE_RESPONSES_API_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "nexus/base/json.h"
#include "nexus/serve/openai_chat.h"

namespace nexus::serve {

// nullopt: `request` is filled, and `echo` with the fields that every response
// object repeats. Else the first wrong field, named.
std::optional<ApiError> ParseResponsesRequest(const Json& body,
                                              ChatRequest* request, Json* echo);

// The answer as output items. Whole and streamed answers are made by the same
// steps; an item is open until the next one begins.
class ResponseEvents : public AnswerFormat {
 public:
  ResponseEvents(ChatHead head, Json echo,
                 std::map<std::string, NamespacedTool> namespaced = {})
      : head_(std::move(head)),
        echo_(std::move(echo)),
        namespaced_(std::move(namespaced)) {}

  Json Whole(const ChatResult& result) override;
  std::string Text(std::string_view delta, const Json& logprobs) override;
  std::string CallBegin(const llm::ToolCall& call) override;
  std::string CallArguments(std::string_view delta) override;
  std::string Finish(const ChatResult& result) override;
  std::string Fail(const ApiError& error) override;

 private:
  std::string Begin();
  std::string Close(std::string_view status);
  std::string End(const ChatResult& result);
  std::string Emit(const char* type, Json fields);
  // `type` with the place of the open item.
  std::string EmitAtItem(const char* type, Json fields);
  Json Response(std::string_view status) const;
  Json FinishedResponse(const ChatResult& result) const;

  const ChatHead head_;
  const Json echo_;
  const std::map<std::string, NamespacedTool> namespaced_;
  Json output_ = Json::array();
  bool has_begun_ = false;
  bool is_open_ = false;  // the last item of output_
  int sequence_ = 0;
};

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_RESPONSES_API_H_
