// Circuit: whether a replica may be asked, by how it answered lately.
//
//   closed     asked as usual; some failures in a row open it
//   open       not asked for a while, which doubles with each failed trial
//   half-open  the while is over: one request at a time tries it
//
// Beside that, a replica that said 429 cools down for as long as it asked: it
// is well, only busy.
#ifndef NEXUS_REMOTE_CIRCUIT_H_
#define NEXUS_REMOTE_CIRCUIT_H_

#include <chrono>
#include <string_view>

namespace nexus::remote {

struct CircuitOptions {
  int failures_to_open = 3;
  std::chrono::milliseconds open_for{2000};
  std::chrono::milliseconds longest_open{60000};
};

enum class CircuitState { kClosed, kOpen, kHalfOpen };
std::string_view CircuitStateName(CircuitState state);

// Thread-compatible. Times are Clock::Now().
class Circuit {
 public:
  using Time = std::chrono::nanoseconds;
  explicit Circuit(const CircuitOptions& options) : options_(options) {}

  CircuitState state(Time now) const;
  // False while open, and in half-open while a trial is at work.
  bool MayTry(Time now) const;
  // How long the remote wants to be left alone; 0: not at all.
  Time CoolingFor(Time now) const;

  // Each OnTry is followed by one of the three.
  void OnTry(Time now);
  void OnSuccess();
  void OnFailure(Time now);
  void OnAbandoned();  // it ended without saying anything about the replica

  void CoolDown(Time until);
  // A probe found it well: an open circuit may be tried at once.
  void AllowTrial(Time now);

 private:
  CircuitOptions options_;
  int failures_ = 0;  // in a row
  int openings_ = 0;  // in a row
  bool is_open_ = false;
  bool trial_running_ = false;
  Time open_until_{0};
  Time cool_until_{0};
};

}  // namespace nexus::remote

#endif  // NEXUS_REMOTE_CIRCUIT_H_
