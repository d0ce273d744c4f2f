// What /metrics says about the replicas, in Prometheus's text format.
#ifndef NEXUS_REMOTE_POOL_METRICS_H_
#define NEXUS_REMOTE_POOL_METRICS_H_

#include <cstdint>
#include <span>
#include <string>

#include "nexus/remote/replica_set.h"

namespace nexus::remote {

// `retries`: attempts beyond the first of a request.
std::string PoolMetricsText(std::span<const ReplicaCounts> replicas,
                            uint64_t retries);

}  // namespace nexus::remote

#endif  // NEXUS_REMOTE_POOL_METRICS_H_
