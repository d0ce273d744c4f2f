#include "nexus/remote/remote_error.h"

#include <algorithm>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/base/utf8_cut.h"
#include "nexus/remote/backoff.h"

namespace nexus::remote {
namespace {

// Of each text of an error: they go into logs and terminals.
constexpr size_t kMaxTextBytes = 1000;

std::string TextOf(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>()
                                                     : std::string();
}

std::string Prefixed(std::string_view replica, std::string_view text) {
  return "backend " + std::string(replica) + ": " + std::string(text);
}

// {"error": {"message", "type", "param", "code"}}, {"error": "text"},
// {"message": "text"} or {"detail": "text"}: what servers have been seen to
// say.
void ReadErrorBody(const Json& body, std::string* message, RemoteError* error) {
  if (!body.is_object()) return;
  const auto inner = body.find("error");
  if (inner != body.end() && inner->is_string()) {
    *message = inner->get<std::string>();
    return;
  }
  const Json& fields =
      inner != body.end() && inner->is_object() ? *inner : body;
  *message = TextOf(fields, "message");
  if (message->empty()) *message = TextOf(fields, "detail");
  error->param = TextOf(fields, "param");
  error->code = TextOf(fields, "code");
}

void Classify(int status, RemoteError* error) {
  if (status == 401 || status == 403) {
    error->status = 502;
    error->code = "backend_refused_key";
    error->param.clear();
  } else if (status == 429) {
    error->status = 429;
    error->type = "rate_limit_error";
    // Out of money: asking again doesn't help.
    error->is_retryable = error->code != "insufficient_quota";
    if (error->code.empty()) error->code = "rate_limit_exceeded";
  } else if (status >= 400 && status < 500) {
    error->status = status;
    error->type = "invalid_request_error";
  } else if (status >= 500) {
    error->status = status == 503 || status == 504 ? status : 502;
    error->is_retryable =
        status == 500 || status == 502 || status == 503 || status == 504;
    error->blames_replica = true;
    if (error->code.empty()) error->code = "backend_error";
  } else {
    error->code = "backend_bad_answer";
  }
}

}  // namespace

RemoteError BadAnswer(std::string_view replica, std::string_view what) {
  RemoteError error;
  error.message = Prefixed(replica, what);
  error.code = "backend_bad_answer";
  error.is_retryable = true;
  error.blames_replica = true;
  return error;
}

RemoteError FromHttpAnswer(std::string_view replica, int status,
                           const net::HttpHeaders& headers,
                           std::string_view body) {
  RemoteError error;
  std::string said;
  if (const auto parsed = ParseJson(body, "error body"); parsed.ok()) {
    ReadErrorBody(*parsed, &said, &error);
  }
  Classify(status, &error);
  std::string text = "HTTP " + std::to_string(status);
  if (!said.empty()) text += ": " + said;
  if (status == 401 || status == 403) {
    text += "; check the key that nexus serve was started with";
  } else if (status >= 300 && status < 400) {
    text +=
        "; redirects aren't followed, since they could take the key "
        "elsewhere: give --backend the final URL";
  }
  error.message = Prefixed(replica, text);
  const auto wish = headers.find("Retry-After");
  if (wish != headers.end()) {
    error.retry_after = ParseRetryAfter(wish->second, UnixSeconds())
                            .value_or(std::chrono::milliseconds(0));
  }
  return error;
}

RemoteError FromErrorObject(std::string_view replica, const Json& error) {
  RemoteError result;
  std::string said;
  ReadErrorBody(Json{{"error", error}}, &said, &result);
  int status = 500;
  if (error.is_object()) {
    const auto code = error.find("code");
    if (code != error.end() && code->is_number_integer()) {
      const auto number = code->get<int64_t>();
      if (number >= 400 && number < 600) status = static_cast<int>(number);
    }
  }
  Classify(status, &result);
  result.message = Prefixed(replica, "an error inside the stream" +
                                         (said.empty() ? "" : ": " + said));
  return result;
}

RemoteError FromTransport(std::string_view replica, const Status& status) {
  RemoteError error;
  // HttpClient's messages begin with the URL that the replica is named by.
  error.message = Prefixed(replica, status.message());
  switch (status.code()) {
    case StatusCode::kDeadlineExceeded:
      error.status = 504;
      error.code = "backend_timeout";
      error.is_retryable = true;
      error.blames_replica = true;
      break;
    case StatusCode::kResourceExhausted:
      error.code = "backend_answer_too_long";
      break;
    case StatusCode::kCancelled:
      error.status = 503;
      error.code = "cancelled";
      break;
    default:
      error.code = "backend_unreachable";
      error.is_retryable = true;
      error.blames_replica = true;
  }
  return error;
}

std::string Redacted(std::string_view secret, std::string_view text) {
  constexpr std::string_view kInstead = "[key]";
  std::string redacted(text);
  if (secret.empty()) return redacted;
  for (size_t at = redacted.find(secret); at != std::string::npos;
       at = redacted.find(secret, at + kInstead.size())) {
    redacted.replace(at, secret.size(), kInstead);
  }
  return redacted;
}

void Sanitize(std::string_view secret, RemoteError* error) {
  for (std::string* text :
       {&error->message, &error->param, &error->code, &error->type}) {
    const std::string redacted = Redacted(secret, *text);
    *text = CutUtf8(redacted, kMaxTextBytes);
  }
}

}  // namespace nexus::remote
