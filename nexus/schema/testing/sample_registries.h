// Test-only: the registries committed under tests/data/registry, and those that
// the developer names in NEXUS_ROUTING_DATA.
#ifndef NEXUS_SCHEMA_TESTING_SAMPLE_REGISTRIES_H_
#define NEXUS_SCHEMA_TESTING_SAMPLE_REGISTRIES_H_

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace nexus::schema::testing {

inline std::vector<std::string> JsonFilesUnder(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator it(folder, error), end;
       !error && it != end; it.increment(error)) {
    const std::string extension = it->path().extension().string();
    if (extension == ".json" || extension == ".jsonl") {
      paths.push_back(it->path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

inline std::vector<std::string> SampleRegistries() {
  return JsonFilesUnder(NEXUS_TEST_DATA_DIR "/registry");
}

// Empty unless NEXUS_ROUTING_DATA names a folder.
inline std::vector<std::string> RoutingRegistries() {
  const char* folder = std::getenv("NEXUS_ROUTING_DATA");
  return folder == nullptr ? std::vector<std::string>{}
                           : JsonFilesUnder(folder);
}

}  // namespace nexus::schema::testing

#endif  // NEXUS_SCHEMA_TESTING_SAMPLE_REGISTRIES_H_
