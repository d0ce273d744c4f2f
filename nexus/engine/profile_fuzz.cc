// Fuzz target: the profiles that decide about splices and routes, as files that
// a user may have edited.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/file_input.h"

#include "nexus/base/check.h"
#include "nexus/base/file_system.h"
#include "nexus/engine/repair_profile.h"
#include "nexus/route/router_profile.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto& fs = nexus::FileSystem::Default();
  const std::string& path = nexus::FileWith(data, size);
  const auto repair = nexus::engine::ReadProfile(fs, path, nullptr);
  if (repair.ok()) {
    for (const int depth : {0, 100, 5000, 1 << 30}) {
      (void)repair->Find({.depth = depth});
    }
    // What is read can be written, and says the same then.
    const nexus::Json json = nexus::engine::ProfileToJson(*repair);
    NEXUS_CHECK(json.is_object());
  } else {
    NEXUS_CHECK(!repair.status().message().empty());
  }
  (void)nexus::route::ReadRouterProfile(fs, path, "abcd");
  return 0;
}
