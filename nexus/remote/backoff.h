// How long to wait before a remote is asked again: exponential, with jitter, so
// that clients that failed together don't come back together; and what the
// remote itself asked for (Retry-After), which is never undercut.
#ifndef NEXUS_REMOTE_BACKOFF_H_
#define NEXUS_REMOTE_BACKOFF_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace nexus::remote {

struct BackoffOptions {
  std::chrono::milliseconds first{250};
  std::chrono::milliseconds longest{8000};
};

// Before retry number `retry` (from 0): between half and the whole of
// first * 2^retry, at most `longest`. `uniform` is in [0, 1). Never near zero:
// a remote that has just failed needs a moment whatever the dice say.
std::chrono::milliseconds BackoffDelay(const BackoffOptions& options, int retry,
                                       double uniform);

// Longer wishes are cut to this.
inline constexpr std::chrono::milliseconds kLongestRetryAfter{3600000};

// The header's seconds (fractions too, which some servers send) or HTTP date.
// nullopt: neither.
std::optional<std::chrono::milliseconds> ParseRetryAfter(
    std::string_view value, int64_t now_unix_seconds);

}  // namespace nexus::remote

#endif  // NEXUS_REMOTE_BACKOFF_H_
