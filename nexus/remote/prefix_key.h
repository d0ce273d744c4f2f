// Which replica a request should go to, so that it finds its own beginning in
// that replica's prefix cache: rendezvous hashing over what the prompt begins
// with, with a bound on the load.
//
// Rendezvous (highest random weight) and not a ring: with the few replicas
// that one Nexus has, trying all of them is cheaper than a table, and one that
// comes or goes moves only its own share of the keys.
#ifndef NEXUS_REMOTE_PREFIX_KEY_H_
#define NEXUS_REMOTE_PREFIX_KEY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/json.h"

namespace nexus::remote {

// Of a chat request as it goes out: model, tools, and the messages up to the
// first user's. Whatever shape the JSON has.
uint64_t PrefixKey(const Json& body);

// Places in `names`, the best for the key first.
std::vector<size_t> RankReplicas(uint64_t key,
                                 std::span<const std::string> names);

// How many requests one of `replicas` may have at work, the new one included,
// when `in_flight` are at work in all: `factor` times its fair share (Mirrokni,
// Thorup, Zadimoghaddam 2016). A popular beginning spills over to the next.
size_t LoadBound(size_t in_flight, size_t replicas, double factor);

}  // namespace nexus::remote

#endif  // NEXUS_REMOTE_PREFIX_KEY_H_
