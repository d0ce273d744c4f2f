// Where notifications to a client go.
#ifndef NEXUS_GATEWAY_NOTIFICATION_SINK_H_
#define NEXUS_GATEWAY_NOTIFICATION_SINK_H_

#include <functional>

#include "nexus/mcp/json_rpc.h"

namespace nexus::gateway {

// Called from several threads; mustn't block, nor call back.
using NotificationSink = std::function<void(const mcp::RpcNotification&)>;

}  // namespace nexus::gateway

#endif  // NEXUS_GATEWAY_NOTIFICATION_SINK_H_
