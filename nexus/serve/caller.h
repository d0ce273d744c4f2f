// Caller: who waits for an answer, on the thread that works for it.
#ifndef NEXUS_SERVE_CALLER_H_
#define NEXUS_SERVE_CALLER_H_

#include <chrono>
#include <functional>

#include "nexus/base/status.h"

namespace nexus::serve {

struct Caller {
  std::chrono::steady_clock::time_point deadline =
      std::chrono::steady_clock::time_point::max();
  // Empty: never. Asks the socket.
  std::function<bool()> is_client_gone;

  // Why nobody waits any more; ok: somebody does.
  Status Check() const {
    if (std::chrono::steady_clock::now() >= deadline) {
      return DeadlineExceededError("the request took too long");
    }
    if (is_client_gone && is_client_gone()) {
      return CancelledError("the client has gone");
    }
    return Status::Ok();
  }
};

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_CALLER_H_
