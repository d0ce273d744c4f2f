#include "nexus/cli/exit_code.h"

namespace nexus::cli {

int ExitCodeFor(const Status& status) {
  switch (status.code()) {
    case StatusCode::kOk:
      return kExitOk;
    case StatusCode::kInvalidArgument:
      return kExitUsage;
    case StatusCode::kNotFound:
      return kExitNotFound;
    case StatusCode::kCorruption:
    case StatusCode::kIncompatible:
      return kExitDamaged;
    case StatusCode::kIoError:
    case StatusCode::kResourceExhausted:
      return kExitSystem;
    case StatusCode::kUnavailable:
    case StatusCode::kDeadlineExceeded:
      return kExitUnavailable;
    case StatusCode::kCancelled:
      return kExitInterrupted;
    case StatusCode::kUnimplemented:
    case StatusCode::kInternal:
      return kExitInternal;
  }
  return kExitInternal;
}

}  // namespace nexus::cli
