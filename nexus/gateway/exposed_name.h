// ExposedName: what a server's tool or prompt is called towards the gateway's
// clients: `server__tool`.
//
// The name depends on server and tool alone, so it stays the same whatever
// other servers come and go. Clients and model APIs take only [a-zA-Z0-9_-] and
// 64 characters: a name that doesn't fit, or whose "__" could be read in two
// ways, is cut and ends with a hash of the whole.
#ifndef NEXUS_GATEWAY_EXPOSED_NAME_H_
#define NEXUS_GATEWAY_EXPOSED_NAME_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace nexus::gateway {

inline constexpr size_t kMaxExposedNameBytes = 64;

// `attempt` > 0 gives another name of the same tool, for the case that a server
// named a tool so that it collides with a hashed name.
std::string ExposedName(std::string_view server, std::string_view name,
                        int attempt = 0);

}  // namespace nexus::gateway

#endif  // NEXUS_GATEWAY_EXPOSED_NAME_H_
