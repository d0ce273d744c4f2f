// What a client sent: one text, read as JSON-RPC.
#ifndef NEXUS_GATEWAY_INCOMING_H_
#define NEXUS_GATEWAY_INCOMING_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/mcp/json_rpc.h"

namespace nexus::gateway {

inline constexpr size_t kMaxClientMessageBytes = size_t{16} << 20;

struct Incoming {
  std::vector<mcp::RpcMessage> messages;
  bool is_batch = false;
  // The answer to what can't be read; then there are no messages.
  std::optional<mcp::RpcResponse> refusal;
};

Incoming ReadIncoming(std::string_view text);

mcp::RpcResponse ErrorResponse(mcp::RpcId id, int64_t code,
                               std::string message);

}  // namespace nexus::gateway

#endif  // NEXUS_GATEWAY_INCOMING_H_
