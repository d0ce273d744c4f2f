#include "nexus/remote/circuit.h"

#include <algorithm>

namespace nexus::remote {

std::string_view CircuitStateName(CircuitState state) {
  switch (state) {
    case CircuitState::kClosed:
      return "closed";
    case CircuitState::kOpen:
      return "open";
    case CircuitState::kHalfOpen:
      return "half-open";
  }
  return "closed";
}

CircuitState Circuit::state(Time now) const {
  if (!is_open_) return CircuitState::kClosed;
  return now < open_until_ ? CircuitState::kOpen : CircuitState::kHalfOpen;
}

bool Circuit::MayTry(Time now) const {
  const CircuitState current = state(now);
  return current == CircuitState::kClosed ||
         (current == CircuitState::kHalfOpen && !trial_running_);
}

Circuit::Time Circuit::CoolingFor(Time now) const {
  return std::max(Time(0), cool_until_ - now);
}

void Circuit::OnTry(Time now) {
  if (state(now) == CircuitState::kHalfOpen) trial_running_ = true;
}

void Circuit::OnSuccess() {
  failures_ = 0;
  openings_ = 0;
  is_open_ = false;
  trial_running_ = false;
}

void Circuit::OnFailure(Time now) {
  trial_running_ = false;
  ++failures_;
  // Requests that were under way when it opened say nothing new.
  if (is_open_ && now < open_until_) return;
  if (!is_open_ && failures_ < options_.failures_to_open) return;
  // 2^10 of any sensible time is over any sensible longest one.
  const int doublings = std::min(openings_, 10);
  ++openings_;
  is_open_ = true;
  open_until_ = now + std::min<Time>(options_.open_for * (1 << doublings),
                                     options_.longest_open);
}

void Circuit::OnAbandoned() { trial_running_ = false; }

void Circuit::CoolDown(Time until) {
  cool_until_ = std::max(cool_until_, until);
}

void Circuit::AllowTrial(Time now) {
  if (is_open_) open_until_ = std::min(open_until_, now);
}

}  // namespace nexus::remote
