// What servers offer besides tools: prompts, resources, completion.
//
// Prompts get names as tools do. A resource keeps its URI, since results of
// tools link to it; a read goes to the server that lists the URI, else to one
// with a template that it fits, else to each in turn.
#ifndef NEXUS_GATEWAY_OFFERS_H_
#define NEXUS_GATEWAY_OFFERS_H_

#include <optional>
#include <string>

#include "nexus/base/json.h"
#include "nexus/gateway/gateway.h"
#include "nexus/mcp/client.h"
#include "nexus/mcp/json_rpc.h"

namespace nexus::gateway {

// Nothing when `method` is none of these. `params` is an object.
std::optional<mcp::RpcResponse> AnswerOffer(Gateway* gateway,
                                            const std::string& method,
                                            const Json& params,
                                            const mcp::CallOptions& options);

}  // namespace nexus::gateway

#endif  // NEXUS_GATEWAY_OFFERS_H_
