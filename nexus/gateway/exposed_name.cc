#include "nexus/gateway/exposed_name.h"

#include <algorithm>

#include "nexus/base/hash.h"

namespace nexus::gateway {
namespace {

constexpr size_t kHashDigits = 8;

bool IsAllowed(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_' || c == '-';
}

// The first "__" of a plain name must be the one that was put there: then two
// plain names are equal only for the same server and tool.
bool SplitsOnce(std::string_view server) {
  return !server.empty() && server.back() != '_' &&
         server.find("__") == std::string_view::npos;
}

}  // namespace

std::string ExposedName(std::string_view server, std::string_view name,
                        int attempt) {
  std::string whole = std::string(server) + "__" + std::string(name);
  std::string shown;
  bool is_plain = attempt == 0 && SplitsOnce(server) && !name.empty();
  for (const char c : whole) {
    is_plain = is_plain && IsAllowed(c);
    shown += IsAllowed(c) ? c : '_';
  }
  if (is_plain && shown.size() <= kMaxExposedNameBytes) return shown;
  // NUL stands in no name, so the halves can't be shifted.
  const std::string key = std::string(server) + '\0' + std::string(name) +
                          '\0' + std::to_string(attempt);
  shown.resize(std::min(shown.size(), kMaxExposedNameBytes - kHashDigits - 1));
  return shown + "_" + ToHex(Sha256Of(key)).substr(0, kHashDigits);
}

}  // namespace nexus::gateway
