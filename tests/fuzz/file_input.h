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
  struct OwnFile {
    const std::string path =
        std::string(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp") +
        "/nexus-fuzz-" + std::to_string(getpid());
    ~OwnFile() { unlink(path.c_str()); }
  };
  static const OwnFile own;
  const std::string& path = own.path;
  std::FILE* file = std::fopen(path.c_str(), "wb");
  if (file == nullptr || std::fwrite(data, 1, size, file) != size ||
      std::fclose(file) != 0) {
    std::abort();
  }
  return path;
}

}  // namespace nexus

#endif  // NEXUS_TESTS_FUZZ_FILE_INPUT_H_
