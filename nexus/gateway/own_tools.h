// The gateway's own tools: find_tool, which routes a request in words to the
// servers' tools, and call_tool, which calls one of them.
//
// Both answer with a tool result even when something is wrong, so that the
// model that called can read what, and do better.
#ifndef NEXUS_GATEWAY_OWN_TOOLS_H_
#define NEXUS_GATEWAY_OWN_TOOLS_H_

#include <functional>
#include <string>
#include <vector>

#include "nexus/base/json.h"
#include "nexus/gateway/gateway.h"
#include "nexus/mcp/client.h"
#include "nexus/mcp/json_rpc.h"

namespace nexus::gateway {

inline constexpr const char* kFindTool = "find_tool";
inline constexpr const char* kCallTool = "call_tool";

// The entries of tools/list. They depend on the configuration alone, so a
// client's prompt stays the same from start to start.
Json FindToolEntry(const Gateway& gateway);
Json CallToolEntry();

// A result of tools/call with `isError`.
Json ToolError(const std::string& text);

struct FindAnswer {
  Json result;                     // of tools/call
  std::vector<std::string> found;  // exposed names
};
FindAnswer FindTool(Gateway* gateway, const Json& arguments,
                    const mcp::CallOptions& options);

// What goes with a call besides its arguments.
struct HandedOn {
  Json meta;  // null: none
  // Told the server's name when the call is about to be made. May be empty.
  std::function<void(const std::string& server)> before_call;
};

// One call of a server's tool: the arguments are validated, then handed on. A
// server that fails is a tool result; its own refusal,
// an error of JSON-RPC, stays one.
mcp::RpcResponse CallServer(Gateway* gateway, const GatewayTool& tool,
                            Json arguments, const HandedOn& handed_on,
                            const mcp::CallOptions& options);

// The same by call_tool's arguments; every failure is a tool result.
Json CallTool(Gateway* gateway, const Json& arguments,
              const HandedOn& handed_on, const mcp::CallOptions& options);

}  // namespace nexus::gateway

#endif  // NEXUS_GATEWAY_OWN_TOOLS_H_
