// StdioTransport: a server as a child process, one JSON-RPC text a line.
//
// One thread owns the child and does all reading, writing and waiting, so a
// server that stops reading can't block a caller, and SIGPIPE is blocked where
// the writes are. The child's exit ends the connection even if a grandchild
// still holds the pipes.
#ifndef NEXUS_MCP_STDIO_TRANSPORT_H_
#define NEXUS_MCP_STDIO_TRANSPORT_H_

#include <atomic>
#include <cstddef>
#include <memory>

#include "nexus/base/result.h"
#include "nexus/mcp/subprocess.h"
#include "nexus/mcp/transport.h"

namespace nexus::mcp {

struct StdioTransportOptions {
  SubprocessOptions process;
  StopOptions stop;
  // While it is set, the child is ended as `hurried_stop` says. Must outlive
  // the transport.
  const std::atomic<bool>* hurry = nullptr;
  StopOptions hurried_stop = {.grace_ms = 200, .term_ms = 300};
  // A longer line from the server is dropped and reported by on_lost.
  size_t max_message_bytes = size_t{16} << 20;
  // Lines of the server's stderr that Diagnostics() shows.
  int stderr_lines = 5;
  // Bytes waiting for a server that doesn't read its stdin.
  size_t max_queued_bytes = size_t{64} << 20;
};

// The child is started here, so that "command not found" comes at once.
Result<std::unique_ptr<Transport>> NewStdioTransport(
    const StdioTransportOptions& options);

}  // namespace nexus::mcp

#endif  // NEXUS_MCP_STDIO_TRANSPORT_H_
