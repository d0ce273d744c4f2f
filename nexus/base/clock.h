// Clock: monotonic time behind an interface, so that tests own it.
#ifndef NEXUS_BASE_CLOCK_H_
#define NEXUS_BASE_CLOCK_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

namespace nexus {

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual std::chrono::nanoseconds Now() const = 0;

  static const Clock& Monotonic();
};

// Thread-safe. Time moves only when the test says so.
class FakeClock : public Clock {
 public:
  std::chrono::nanoseconds Now() const override {
    return std::chrono::nanoseconds(now_ns_.load());
  }
  void Advance(std::chrono::nanoseconds by) { now_ns_ += by.count(); }

 private:
  std::atomic<int64_t> now_ns_{0};
};

inline double Milliseconds(std::chrono::nanoseconds duration) {
  return static_cast<double>(duration.count()) * 1e-6;
}

// Seconds since the Unix epoch, for "last used" columns.
int64_t UnixSeconds();
// Today in UTC, "2026-01-31".
std::string UtcDate();

}  // namespace nexus

#endif  // NEXUS_BASE_CLOCK_H_
