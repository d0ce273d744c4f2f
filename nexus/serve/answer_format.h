// AnswerFormat: the shape in which one API writes an answer, whole or as the
// events of a stream. The work behind it is the same for all.
#ifndef NEXUS_SERVE_ANSWER_FORMAT_H_
#define NEXUS_SERVE_ANSWER_FORMAT_H_

#include <string>
#include <string_view>

#include "nexus/base/json.h"
#include "nexus/llm/chat_template.h"
#include "nexus/serve/api_error.h"

namespace nexus::serve {

struct ChatResult;

// Of one answer. Either Whole, once, or the others in the order in which things
// come; each of those returns the bytes of a text/event-stream to send.
// Thread-compatible.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;

  virtual Json Whole(const ChatResult& result) = 0;

  // `logprobs`: of the tokens that came with it, as LogprobsJson; null where
  // nobody asked for them.
  virtual std::string Text(std::string_view delta, const Json& logprobs) = 0;
  virtual std::string CallBegin(const llm::ToolCall& call) = 0;  // no arguments
  virtual std::string CallArguments(std::string_view delta) = 0;
  // The end, with what is known only then.
  virtual std::string Finish(const ChatResult& result) = 0;
  // In place of Finish, once events have gone out.
  virtual std::string Fail(const ApiError& error) = 0;
};

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_ANSWER_FORMAT_H_
