// Fuzz target: outside JSON. What is read must be written so that it is read
// again as the same value.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "nexus/base/check.h"
#include "nexus/base/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto first = nexus::ParseJson(text, "input");
  if (!first.ok()) {
    NEXUS_CHECK(!first.status().message().empty());
    return 0;
  }
  const std::string written = nexus::DumpJson(*first);
  const auto again = nexus::ParseJson(written, "input");
  NEXUS_CHECK(again.ok());
  NEXUS_CHECK(nexus::DumpJson(*again) == written);
  return 0;
}
