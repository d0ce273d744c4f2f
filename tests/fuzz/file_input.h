// A fuzz target's input as a file, for readers that take a path.
#ifndef NEXUS_TESTS_FUZZ_FILE_INPUT_H_
#define NEXUS_TESTS_FUZZ_FILE_INPUT_H_

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace nexus {

// One file a process, in memory where there is /dev/shm; gone with the process.
inline const std::string& FileWith(const uint8_t* data, size_t size) {
  static const std::string path = [] {
    const char* folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    const std::string name =
        std::string(folder) + "/nexus-fuzz-" + std::to_string(getpid());
    std::atexit([] {
      for (const char* each : {"/dev/shm", "/tmp"}) {
        unlink((std::string(each) + "/nexus-fuzz-" + std::to_string(getpid()))
                   .c_str());
      }
    });
    return name;
  }();
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr || std::fwrite(data, 1, size, file) != size ||
      std::fclose(file) != 0) {
    std::abort();
  }
  return path;
}

}  // namespace nexus

#endif  // NEXUS_TESTS_FUZZ_FILE_INPUT_H_
