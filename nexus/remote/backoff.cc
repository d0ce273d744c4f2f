#include "nexus/remote/backoff.h"

#include <time.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ctime>
#include <string>

namespace nexus::remote {

using std::chrono::milliseconds;

milliseconds BackoffDelay(const BackoffOptions& options, int retry,
                          double uniform) {
  const double whole = std::min(static_cast<double>(options.longest.count()),
                                static_cast<double>(options.first.count()) *
                                    std::exp2(std::clamp(retry, 0, 30)));
  const double share = 0.5 + 0.5 * std::clamp(uniform, 0.0, 1.0);
  return milliseconds(static_cast<int64_t>(whole * share));
}

std::optional<milliseconds> ParseRetryAfter(std::string_view value,
                                            int64_t now_unix_seconds) {
  const size_t begin = value.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return std::nullopt;
  value = value.substr(begin, value.find_last_not_of(" \t") - begin + 1);
  double seconds = 0;
  const char* const end = value.data() + value.size();
  const auto [stop, error] =
      std::from_chars(value.data(), end, seconds, std::chars_format::fixed);
  if (error != std::errc() || stop != end) {
    std::tm parts{};
    const std::string text(value);
    const char* rest =
        ::strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
    if (rest == nullptr || *rest != '\0') return std::nullopt;
    seconds = static_cast<double>(::timegm(&parts) - now_unix_seconds);
  }
  if (!std::isfinite(seconds)) return std::nullopt;
  const double longest = static_cast<double>(kLongestRetryAfter.count());
  return milliseconds(
      static_cast<int64_t>(std::clamp(seconds * 1000, 0.0, longest)));
}

}  // namespace nexus::remote
