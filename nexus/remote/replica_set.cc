#include "nexus/remote/replica_set.h"

#include <algorithm>
#include <utility>

#include "nexus/remote/prefix_key.h"

namespace nexus::remote {

ReplicaSet::ReplicaSet(std::vector<std::string> names,
                       const ReplicaSetOptions& options)
    : names_(std::move(names)),
      options_(options),
      clock_(options.clock == nullptr ? Clock::Monotonic() : *options.clock) {
  MutexLock lock(mutex_);
  for (const std::string& name : names_) {
    replicas_.push_back(
        {.circuit = Circuit(options.circuit), .counts = {.name = name}});
  }
}

bool ReplicaSet::MayTry(const Replica& replica, Circuit::Time now) const {
  return replica.counts.is_well && replica.circuit.MayTry(now);
}

ReplicaSet::Choice ReplicaSet::Take(uint64_t key,
                                    std::span<const size_t> tried) {
  const std::vector<size_t> order = RankReplicas(key, names_);
  MutexLock lock(mutex_);
  const Circuit::Time now = clock_.Now();
  std::vector<size_t> left;
  Circuit::Time wait{0};
  for (const size_t i : order) {
    if (std::find(tried.begin(), tried.end(), i) != tried.end()) continue;
    const Circuit::Time cooling = replicas_[i].circuit.CoolingFor(now);
    if (cooling.count() == 0) {
      left.push_back(i);
    } else if (wait.count() == 0 || cooling < wait) {
      wait = cooling;
    }
  }
  if (left.empty()) return {.replica = std::nullopt, .wait = wait};

  std::vector<size_t> well;
  size_t in_flight = 0;
  for (const size_t i : left) {
    if (!MayTry(replicas_[i], now)) continue;
    well.push_back(i);
    in_flight += replicas_[i].counts.in_flight;
  }
  size_t chosen = left.front();
  if (!well.empty()) {
    // One of them is within the bound, which is over the mean.
    const size_t bound =
        LoadBound(in_flight, well.size(), options_.load_factor);
    chosen = *std::find_if(well.begin(), well.end(), [&](size_t i) {
      return replicas_[i].counts.in_flight < bound;
    });
  }
  Replica& replica = replicas_[chosen];
  replica.circuit.OnTry(now);
  ++replica.counts.in_flight;
  ++replica.counts.requests;
  if (chosen == order.front()) ++replica.counts.first_choice;
  return {.replica = chosen, .wait = Circuit::Time(0)};
}

void ReplicaSet::GiveBack(size_t replica, Ending ending,
                          std::chrono::nanoseconds cool_down) {
  MutexLock lock(mutex_);
  Replica& mine = replicas_[replica];
  const Circuit::Time now = clock_.Now();
  --mine.counts.in_flight;
  switch (ending) {
    case Ending::kGood:
      mine.circuit.OnSuccess();
      // It answers, whatever the probe thought.
      mine.counts.is_well = true;
      break;
    case Ending::kBad:
      ++mine.counts.failures;
      mine.circuit.OnFailure(now);
      break;
    case Ending::kThrottled:
      ++mine.counts.throttled;
      mine.circuit.OnAbandoned();
      break;
    case Ending::kAbandoned:
      mine.circuit.OnAbandoned();
      break;
  }
  if (cool_down.count() > 0) mine.circuit.CoolDown(now + cool_down);
}

void ReplicaSet::ReportProbe(size_t replica, bool is_well) {
  MutexLock lock(mutex_);
  Replica& mine = replicas_[replica];
  mine.counts.is_well = is_well;
  if (is_well) {
    mine.circuit.AllowTrial(clock_.Now());
  } else {
    ++mine.counts.probe_failures;
  }
}

size_t ReplicaSet::available() const {
  MutexLock lock(mutex_);
  const Circuit::Time now = clock_.Now();
  return static_cast<size_t>(std::count_if(
      replicas_.begin(), replicas_.end(), [&](const Replica& replica) {
        return replica.counts.is_well &&
               replica.circuit.state(now) != CircuitState::kOpen;
      }));
}

std::vector<ReplicaCounts> ReplicaSet::counts() const {
  MutexLock lock(mutex_);
  const Circuit::Time now = clock_.Now();
  std::vector<ReplicaCounts> all;
  for (const Replica& replica : replicas_) {
    all.push_back(replica.counts);
    all.back().circuit = replica.circuit.state(now);
  }
  return all;
}

}  // namespace nexus::remote
