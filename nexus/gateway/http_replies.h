// What answers over HTTP are made of: refusals, and event streams.
#ifndef NEXUS_GATEWAY_HTTP_REPLIES_H_
#define NEXUS_GATEWAY_HTTP_REPLIES_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "nexus/gateway/outbox.h"
#include "nexus/mcp/json_rpc.h"
#include "nexus/net/http_server.h"

namespace nexus::gateway {

inline constexpr const char* kEventStream = "text/event-stream";
// Of the implementation's own range: what JSON-RPC has no code for.
inline constexpr int64_t kServerError = -32000;

// An error without an id: nothing was read, or nobody asked.
std::string HttpErrorBody(int status, std::string_view message);
net::ServerResponse Refuse(int status, const std::string& message);
net::ServerResponse RefuseRpc(int status, const mcp::RpcResponse& refusal);

bool Accepts(const net::ServerRequest& request, std::string_view type);

// With the headers of an event stream; what it says is yet to be set.
net::ServerResponse EventStream();
std::string Event(std::string_view json);
// Writes what comes into `outbox` until that is closed, `is_over` says so, or
// nobody reads, which is false. After `heartbeat` without news a comment.
bool WriteEvents(Outbox* outbox, const net::StreamWriter& write,
                 std::chrono::milliseconds heartbeat,
                 const std::function<bool()>& is_over);

}  // namespace nexus::gateway

#endif  // NEXUS_GATEWAY_HTTP_REPLIES_H_
