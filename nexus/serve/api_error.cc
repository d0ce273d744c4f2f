#include "nexus/serve/api_error.h"

#include <utility>

namespace nexus::serve {
namespace {

Json TextOrNull(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

int HttpStatusOf(StatusCode code) {
  switch (code) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kUnimplemented:
      return 400;
    case StatusCode::kNotFound:
      return 404;
    case StatusCode::kDeadlineExceeded:
      return 408;
    case StatusCode::kResourceExhausted:
      return 429;
    case StatusCode::kUnavailable:
    case StatusCode::kCancelled:
      return 503;
    default:
      return 500;
  }
}

}  // namespace

ApiError BadField(std::string param, std::string message) {
  ApiError error;
  error.message = param + ": " + message;
  error.param = std::move(param);
  return error;
}

ApiError FromHttpStatus(int status, std::string_view message) {
  ApiError error;
  error.status = status;
  error.message = message;
  if (status == 401) {
    error.type = "authentication_error";
    error.code = "invalid_api_key";
  } else if (status == 403) {
    error.type = "permission_error";
  } else if (status == 429) {
    error.type = "rate_limit_error";
    error.code = "rate_limit_exceeded";
  } else if (status >= 500) {
    error.type = "server_error";
  }
  return error;
}

ApiError FromStatus(const Status& status) {
  return FromHttpStatus(HttpStatusOf(status.code()), status.message());
}

Json ToJson(const ApiError& error) {
  return {{"error",
           {{"message", error.message},
            {"type", error.type},
            {"param", TextOrNull(error.param)},
            {"code", TextOrNull(error.code)}}}};
}

}  // namespace nexus::serve
