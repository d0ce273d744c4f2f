#include "nexus/serve/call_ids.h"

#include <atomic>
#include <cstdint>
#include <random>

#include "nexus/base/hash.h"

namespace nexus::serve {

std::string NewId(std::string_view prefix) {
  static const std::string process = [] {
    std::random_device device;
    std::string seed;
    for (int i = 0; i < 8; ++i) seed += std::to_string(device()) + " ";
    return seed;
  }();
  static std::atomic<uint64_t> count{0};
  return std::string(prefix) +
         ToHex(Sha256Of(process + std::to_string(++count))).substr(0, 24);
}

}  // namespace nexus::serve
