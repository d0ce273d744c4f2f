// The revision without a handshake: each request says in its `_meta` of which
// revision it is and what its client can do, each result what kind it is and
// how long it may be kept. No request depends on one before it.
#ifndef NEXUS_GATEWAY_STATELESS_H_
#define NEXUS_GATEWAY_STATELESS_H_

#include <optional>
#include <string>

#include "nexus/base/json.h"
#include "nexus/mcp/json_rpc.h"

namespace nexus::gateway {

// Codes that this revision has defined.
inline constexpr int64_t kHeaderMismatch = -32020;
inline constexpr int64_t kMissingCapability = -32021;
inline constexpr int64_t kUnsupportedVersion = -32022;

// Keys of `_meta`.
inline constexpr const char* kVersionKey =
    "io.modelcontextprotocol/protocolVersion";
inline constexpr const char* kClientInfoKey =
    "io.modelcontextprotocol/clientInfo";
inline constexpr const char* kCapabilitiesKey =
    "io.modelcontextprotocol/clientCapabilities";
inline constexpr const char* kLogLevelKey = "io.modelcontextprotocol/logLevel";
inline constexpr const char* kServerInfoKey =
    "io.modelcontextprotocol/serverInfo";
inline constexpr const char* kSubscriptionKey =
    "io.modelcontextprotocol/subscriptionId";

inline constexpr const char* kDiscover = "server/discover";
inline constexpr const char* kListen = "subscriptions/listen";

// `params._meta`, if there is one and it is an object.
const Json* MetaOf(const Json& params);

// Whether the request is of a revision without a handshake, this one or
// another: it names its revision itself, or exists only there.
bool IsStateless(const mcp::RpcRequest& request);

// The refusal of a request whose `_meta` lacks what must be in it, or has it
// wrong.
std::optional<mcp::RpcResponse> CheckRequestMeta(
    const mcp::RpcRequest& request);
// The refusal of a revision that isn't served.
std::optional<mcp::RpcResponse> CheckVersion(const mcp::RpcRequest& request);
mcp::RpcResponse UnsupportedVersion(mcp::RpcId id,
                                    const std::string& requested);

// `_meta` of a client's request as a server behind may have it; null: empty.
// What holds for one connection only is left out: the token of its progress,
// its revision, its client.
Json ForwardedMeta(const Json& params);

// Makes an answer of the gateway's or of a server behind, of whatever revision
// that is, one of this revision.
void CompleteResponse(const std::string& method, const Json& server_info,
                      mcp::RpcResponse* response);

// What HTTP has to say to an answer.
int HttpStatusOf(const mcp::RpcResponse& response);

}  // namespace nexus::gateway

#endif  // NEXUS_GATEWAY_STATELESS_H_
