// ReplicaSet: which of several replicas the next request goes to. Pure
// bookkeeping, without a network: circuits, loads, cool-downs, and the order
// that the hash of the request's beginning gives.
//
// The first choice is the replica that has the prefix; it is passed over while
// it is unwell, cools down, or has more than its share of the load. When none
// is well the best one is asked all the same: an error from it says more than
// one of ours.
#ifndef NEXUS_REMOTE_REPLICA_SET_H_
#define NEXUS_REMOTE_REPLICA_SET_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nexus/base/clock.h"
#include "nexus/base/mutex.h"
#include "nexus/remote/circuit.h"

namespace nexus::remote {

struct ReplicaSetOptions {
  CircuitOptions circuit;
  double load_factor = 1.25;
  const Clock* clock = nullptr;  // null: the monotonic one
};

struct ReplicaCounts {
  std::string name;
  CircuitState circuit = CircuitState::kClosed;
  bool is_well = true;  // by the last probe
  size_t in_flight = 0;
  uint64_t requests = 0;      // attempts
  uint64_t failures = 0;      // attempts that count against it
  uint64_t throttled = 0;     // 429
  uint64_t first_choice = 0;  // attempts by keys that prefer it
  uint64_t probe_failures = 0;
};

// Thread-safe.
class ReplicaSet {
 public:
  ReplicaSet(std::vector<std::string> names, const ReplicaSetOptions& options);

  struct Choice {
    std::optional<size_t> replica;  // its load counts it from now on
    // Without a replica: all that are left cool down, the first until then.
    // Zero: none is left.
    std::chrono::nanoseconds wait{0};
  };
  // `tried`: replicas that this request has been at, which aren't chosen.
  Choice Take(uint64_t key, std::span<const size_t> tried) EXCLUDES(mutex_);

  // One of these for each replica taken.
  enum class Ending {
    kGood,       // an answer, or a refusal of the request
    kBad,        // its fault
    kThrottled,  // 429
    kAbandoned,  // the client left: says nothing
  };
  void GiveBack(size_t replica, Ending ending,
                std::chrono::nanoseconds cool_down = {}) EXCLUDES(mutex_);

  void ReportProbe(size_t replica, bool is_well) EXCLUDES(mutex_);

  size_t size() const { return names_.size(); }
  const std::vector<std::string>& names() const { return names_; }
  // Well by the last probe, and its circuit not open.
  size_t available() const EXCLUDES(mutex_);
  std::vector<ReplicaCounts> counts() const EXCLUDES(mutex_);

 private:
  struct Replica {
    Circuit circuit;
    ReplicaCounts counts;
  };
  bool MayTry(const Replica& replica, Circuit::Time now) const;

  const std::vector<std::string> names_;
  const ReplicaSetOptions options_;
  const Clock& clock_;
  mutable Mutex mutex_;
  std::vector<Replica> replicas_ GUARDED_BY(mutex_);
};

}  // namespace nexus::remote

#endif  // NEXUS_REMOTE_REPLICA_SET_H_
