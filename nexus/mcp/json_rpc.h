// JSON-RPC 2.0 messages: typed, parsed from outside text, written as one line.
//
// Input that isn't JSON-RPC is a Status with the reason, never an exception: a
// server's stdout carries whatever its libraries print.
#ifndef NEXUS_MCP_JSON_RPC_H_
#define NEXUS_MCP_JSON_RPC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "nexus/base/json.h"
#include "nexus/base/result.h"

namespace nexus::mcp {

// monostate stands for null: a peer's error answer to what it couldn't read.
using RpcId = std::variant<std::monostate, int64_t, std::string>;

namespace rpc_error {
inline constexpr int64_t kParseError = -32700;
inline constexpr int64_t kInvalidRequest = -32600;
inline constexpr int64_t kMethodNotFound = -32601;
inline constexpr int64_t kInvalidParams = -32602;
inline constexpr int64_t kInternalError = -32603;
}  // namespace rpc_error

struct RpcError {
  int64_t code = 0;
  std::string message;
  Json data;  // null: none
};

struct RpcRequest {
  RpcId id;
  std::string method;
  Json params;  // null: none
};

struct RpcNotification {
  std::string method;
  Json params;  // null: none
};

// Exactly one of the two: `error`, or else `result`.
struct RpcResponse {
  RpcId id;
  Json result;
  std::optional<RpcError> error;
};

using RpcMessage = std::variant<RpcRequest, RpcNotification, RpcResponse>;

// One message, or a batch (revision 2025-03-26 has them). `source` names the
// peer. kInvalidArgument: not JSON, not an object, wrong "jsonrpc", an id that
// is neither integer nor string, both or neither of result and error, ... One
// bad member makes the whole batch bad.
Result<std::vector<RpcMessage>> ParseRpc(std::string_view text,
                                         std::string_view source,
                                         const JsonLimits& limits = {});

// One line without a line end; invalid UTF-8 becomes U+FFFD.
std::string SerializeRpc(const RpcRequest& request);
std::string SerializeRpc(const RpcNotification& notification);
std::string SerializeRpc(const RpcResponse& response);

std::string RpcIdText(const RpcId& id);

}  // namespace nexus::mcp

#endif  // NEXUS_MCP_JSON_RPC_H_
