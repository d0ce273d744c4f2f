// Status: the outcome of an operation that can fail, and why.
//
// Anything from outside (file bytes, JSON, HTTP, a child process) that turns
// out wrong becomes a Status. The message names the file, the offset, the
// server or the field, what was expected and found, and what to do about it.
#ifndef NEXUS_BASE_STATUS_H_
#define NEXUS_BASE_STATUS_H_

#include <ostream>
#include <string>
#include <string_view>
#include <utility>

namespace nexus {

enum class StatusCode {
  kOk = 0,
  kInvalidArgument,    // the caller's input is wrong; trying again won't help
  kNotFound,           // a file, tool, server or model isn't there
  kCorruption,         // bytes are damaged: checksum, truncation, bad structure
  kIncompatible,       // intact, but made for another model, version or recipe
  kIoError,            // the operating system refused
  kResourceExhausted,  // context, disk, memory or queue is full
  kUnavailable,        // a server or child process isn't reachable now
  kDeadlineExceeded,   // it took too long
  kCancelled,          // somebody asked to stop
  kUnimplemented,      // a thing that Nexus refuses to do, with the reason
  kInternal,           // a fault of Nexus or of a library it uses
};

// The code's name as users see it, for example "incompatible".
std::string_view StatusCodeName(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message)
      : code_(code), message_(std::move(message)) {}

  static Status Ok() { return {}; }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

  // "incompatible: block x.nxb: rope base 10000, model has 1000000".
  std::string ToString() const;

  // The same code, the message preceded by "context: ".
  Status WithContext(std::string_view context) const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

Status InvalidArgumentError(std::string message);
Status NotFoundError(std::string message);
Status CorruptionError(std::string message);
Status IncompatibleError(std::string message);
Status IoError(std::string message);
// "ACTION PATH: strerror(errno)", the usual form of a failed system call.
Status ErrnoError(std::string_view action, std::string_view path, int error);
Status ResourceExhaustedError(std::string message);
Status UnavailableError(std::string message);
Status DeadlineExceededError(std::string message);
Status CancelledError(std::string message);
Status UnimplementedError(std::string message);
Status InternalError(std::string message);

std::ostream& operator<<(std::ostream& out, const Status& status);

}  // namespace nexus

#define NEXUS_RETURN_IF_ERROR(expr)                                    \
  do {                                                                 \
    if (::nexus::Status nexus_status_ = (expr); !nexus_status_.ok()) { \
      return nexus_status_;                                            \
    }                                                                  \
  } while (false)

#endif  // NEXUS_BASE_STATUS_H_
