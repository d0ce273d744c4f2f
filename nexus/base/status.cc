#include "nexus/base/status.h"

#include <system_error>

namespace nexus {

std::string_view StatusCodeName(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid argument";
    case StatusCode::kNotFound:
      return "not found";
    case StatusCode::kCorruption:
      return "corruption";
    case StatusCode::kIncompatible:
      return "incompatible";
    case StatusCode::kIoError:
      return "i/o error";
    case StatusCode::kResourceExhausted:
      return "resource exhausted";
    case StatusCode::kUnavailable:
      return "unavailable";
    case StatusCode::kDeadlineExceeded:
      return "deadline exceeded";
    case StatusCode::kCancelled:
      return "cancelled";
    case StatusCode::kUnimplemented:
      return "unimplemented";
    case StatusCode::kInternal:
      return "internal";
  }
  return "unknown";
}

std::string Status::ToString() const {
  if (ok()) return "ok";
  std::string text(StatusCodeName(code_));
  text += ": ";
  text += message_;
  return text;
}

Status Status::WithContext(std::string_view context) const {
  if (ok()) return *this;
  std::string text(context);
  text += ": ";
  text += message_;
  return {code_, std::move(text)};
}

Status InvalidArgumentError(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}
Status NotFoundError(std::string message) {
  return {StatusCode::kNotFound, std::move(message)};
}
Status CorruptionError(std::string message) {
  return {StatusCode::kCorruption, std::move(message)};
}
Status IncompatibleError(std::string message) {
  return {StatusCode::kIncompatible, std::move(message)};
}
Status IoError(std::string message) {
  return {StatusCode::kIoError, std::move(message)};
}
Status ErrnoError(std::string_view action, std::string_view path, int error) {
  std::string text(action);
  text += ' ';
  text += path;
  text += ": ";
  // Not strerror: that one isn't thread-safe everywhere.
  text += std::error_code(error, std::generic_category()).message();
  const auto condition = std::error_code(error, std::generic_category());
  if (condition == std::errc::no_such_file_or_directory) {
    return NotFoundError(std::move(text));
  }
  if (condition == std::errc::no_space_on_device) {
    return ResourceExhaustedError(std::move(text));
  }
  return IoError(std::move(text));
}
Status ResourceExhaustedError(std::string message) {
  return {StatusCode::kResourceExhausted, std::move(message)};
}
Status UnavailableError(std::string message) {
  return {StatusCode::kUnavailable, std::move(message)};
}
Status DeadlineExceededError(std::string message) {
  return {StatusCode::kDeadlineExceeded, std::move(message)};
}
Status CancelledError(std::string message) {
  return {StatusCode::kCancelled, std::move(message)};
}
Status UnimplementedError(std::string message) {
  return {StatusCode::kUnimplemented, std::move(message)};
}
Status InternalError(std::string message) {
  return {StatusCode::kInternal, std::move(message)};
}

std::ostream& operator<<(std::ostream& out, const Status& status) {
  return out << status.ToString();
}

}  // namespace nexus
