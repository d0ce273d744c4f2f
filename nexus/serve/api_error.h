// ApiError: what went wrong with a request, in OpenAI's shape, so that official
// clients raise the exception that their users expect.
#ifndef NEXUS_SERVE_API_ERROR_H_
#define NEXUS_SERVE_API_ERROR_H_

#include <string>
#include <string_view>

#include "nexus/base/json.h"
#include "nexus/base/status.h"

namespace nexus::serve {

struct ApiError {
  int status = 400;  // of HTTP
  std::string type = "invalid_request_error";
  std::string message;
  std::string param;  // the field, "messages[0].role"; empty: none
  std::string code;   // stable, for programs; empty: none
  int retry_after_s = 0;
};

// The request is wrong at `param`.
ApiError BadField(std::string param, std::string message);

// What an operation's failure is to the client: kInvalidArgument 400, kNotFound
// 404, kResourceExhausted 429, kUnavailable and kCancelled 503,
// kDeadlineExceeded 408, everything else 500.
ApiError FromStatus(const Status& status);

// The usual type for an HTTP status that comes without a reason of ours.
ApiError FromHttpStatus(int status, std::string_view message);

// {"error": {"message", "type", "param", "code"}}
Json ToJson(const ApiError& error);

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_API_ERROR_H_
