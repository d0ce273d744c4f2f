// Transport: carries JSON-RPC texts to one server and back.
#ifndef NEXUS_MCP_TRANSPORT_H_
#define NEXUS_MCP_TRANSPORT_H_

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nexus/base/status.h"

namespace nexus::mcp {

struct SendOptions {
  int timeout_ms = 60000;
  const std::atomic<bool>* cancel = nullptr;
  // Asked after each message: true once the answer to this one is in.
  std::function<bool()> answered;
  // For transports that route by header; empty where it doesn't apply.
  std::string method;
  std::string tool_name;
  std::vector<std::pair<std::string, std::string>> headers;
};

// Thread-safe. Handlers run on a thread of the transport or inside Send(),
// may run at the same time, and must not call Close().
class Transport {
 public:
  struct Handlers {
    // One JSON-RPC text, not yet parsed.
    std::function<void(std::string_view text)> on_message;
    // An answer was lost (too large): whoever waits for one won't get it. The
    // connection goes on.
    std::function<void(Status)> on_lost;
    // The connection is gone for good. Called at most once, never by Close().
    std::function<void(Status)> on_closed;
  };

  virtual ~Transport() = default;

  // Call once, before Send().
  virtual Status Start(Handlers handlers) = 0;
  // Sends one message. A stdio transport returns when it is queued; an HTTP
  // transport returns when the answer has gone through on_message.
  virtual Status Send(std::string_view message, const SendOptions& options) = 0;
  // The handshake's outcome; HTTP repeats it in a header.
  virtual void SetProtocolVersion(const std::string& version) = 0;
  // After it no handler runs. Idempotent.
  virtual Status Close() = 0;
  // What helps to understand a failure, such as the last lines of stderr; may
  // be empty. Complete sentences for the end of an error message.
  virtual std::string Diagnostics() const = 0;
};

}  // namespace nexus::mcp

#endif  // NEXUS_MCP_TRANSPORT_H_
