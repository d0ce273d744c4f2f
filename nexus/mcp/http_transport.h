// HttpTransport: a server over streamable HTTP. Each message is a POST whose
// answer is one JSON text or an event stream; a broken stream is resumed with
// Last-Event-ID. A GET stream carries what the server says on its own.
#ifndef NEXUS_MCP_HTTP_TRANSPORT_H_
#define NEXUS_MCP_HTTP_TRANSPORT_H_

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <string>

#include "nexus/base/result.h"
#include "nexus/mcp/transport.h"

namespace nexus::mcp {

struct HttpTransportOptions {
  std::string url;
  std::map<std::string, std::string> headers;
  int connect_timeout_ms = 10000;
  size_t max_message_bytes = size_t{16} << 20;
  // While it is set, Close() takes leave of the server in 200 ms instead of
  // two seconds. Must outlive the transport.
  const std::atomic<bool>* hurry = nullptr;
};

// Doesn't connect yet. kInvalidArgument: a bad URL.
Result<std::unique_ptr<Transport>> NewHttpTransport(
    const HttpTransportOptions& options);

}  // namespace nexus::mcp

#endif  // NEXUS_MCP_HTTP_TRANSPORT_H_
