// The gateway over stdin and stdout: one client, one session, one JSON-RPC text
// a line.
//
// The caller's thread reads, a second one writes, each request runs on a thread
// of its own: whatever a tool or a client that doesn't read does, the next line
// is read.
#ifndef NEXUS_GATEWAY_STDIO_SERVER_H_
#define NEXUS_GATEWAY_STDIO_SERVER_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>

#include "nexus/base/status.h"
#include "nexus/gateway/gateway.h"

namespace nexus::gateway {

struct StdioServerOptions {
  int in_fd = 0;
  int out_fd = 1;
  std::string version;  // of the program
  // Ends serving at once. Must outlive the call.
  const std::atomic<bool>* stop = nullptr;
  // How long requests may still run after the end of the input.
  std::chrono::milliseconds drain{10000};
  size_t max_requests = 64;
  // Answers and notifications that the client hasn't read yet; over it the
  // client is given up.
  size_t max_unread_bytes = size_t{64} << 20;
};

// Returns at the end of the input, when the client has closed its end of the
// output, or at `stop`. kResourceExhausted: the client doesn't read.
Status ServeStdio(Gateway* gateway, const StdioServerOptions& options);

}  // namespace nexus::gateway

#endif  // NEXUS_GATEWAY_STDIO_SERVER_H_
