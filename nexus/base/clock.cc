#include "nexus/base/clock.h"

#include <array>
#include <ctime>

namespace nexus {
namespace {

class MonotonicClock : public Clock {
 public:
  std::chrono::nanoseconds Now() const override {
    return std::chrono::steady_clock::now().time_since_epoch();
  }
};

}  // namespace

const Clock& Clock::Monotonic() {
  static const MonotonicClock clock;
  return clock;
}

int64_t UnixSeconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string UtcDate() {
  const std::time_t now = UnixSeconds();
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  std::array<char, 16> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d", &parts);
  return text.data();
}

}  // namespace nexus
