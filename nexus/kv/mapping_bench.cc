// What advice to the kernel is worth when a block is mapped and checked.
//
// A block of the default model for one tool is 5 MB (see block_reader_bench).
// Opening it reads every byte once, in order, for the checksums; then a splice
// reads rows out of the page cache. Cold: the file's pages are dropped before
// each round, which needs a file system that honours it (tmpfs doesn't).
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <vector>

#include "benchmark/benchmark.h"

#include "nexus/base/check.h"
#include "nexus/base/file_system.h"
#include "nexus/base/hash.h"
#include "nexus/base/test_util.h"
#include "nexus/base/unique_fd.h"

namespace nexus::kv {
namespace {

constexpr size_t kBlockBytes = 5 << 20;

enum class Advice { kNone, kSequential, kWillNeed, kPopulate, kReadIntoBuffer };

class BlockFile {
 public:
  BlockFile() {
    std::string bytes(kBlockBytes, '\0');
    uint64_t state = 1;
    for (char& byte : bytes) {
      state = state * 6364136223846793005U + 1442695040888963407U;
      byte = static_cast<char>(state >> 56);
    }
    fd_ = UniqueFd(
        ::open(dir_.File("block").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    NEXUS_CHECK(fd_.valid());
    NEXUS_CHECK(::write(fd_.get(), bytes.data(), bytes.size()) ==
                static_cast<ssize_t>(bytes.size()));
    // Only clean pages can be dropped.
    NEXUS_CHECK(::fsync(fd_.get()) == 0);
  }
  void Evict() const {
    NEXUS_CHECK(::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_DONTNEED) == 0);
  }
  int fd() const { return fd_.get(); }

 private:
  ScopedTempDir dir_;
  UniqueFd fd_;
};

uint64_t MapAndHash(int fd, Advice advice) {
  const int populate = advice == Advice::kPopulate ? MAP_POPULATE : 0;
  void* address =
      ::mmap(nullptr, kBlockBytes, PROT_READ, MAP_SHARED | populate, fd, 0);
  NEXUS_CHECK(address != MAP_FAILED);
  if (advice == Advice::kSequential) {
    ::madvise(address, kBlockBytes, MADV_SEQUENTIAL);
  } else if (advice == Advice::kWillNeed) {
    ::madvise(address, kBlockBytes, MADV_WILLNEED);
  }
  const uint64_t hash = Xxh3(address, kBlockBytes);
  ::munmap(address, kBlockBytes);
  return hash;
}

uint64_t ReadAndHash(int fd, std::vector<char>* buffer) {
  buffer->resize(kBlockBytes);
  NEXUS_CHECK(::pread(fd, buffer->data(), kBlockBytes, 0) ==
              static_cast<ssize_t>(kBlockBytes));
  return Xxh3(buffer->data(), kBlockBytes);
}

void Open(benchmark::State& state, Advice advice, bool cold) {
  const BlockFile file;
  std::vector<char> buffer;
  for (auto _ : state) {
    if (cold) {
      state.PauseTiming();
      file.Evict();
      state.ResumeTiming();
    }
    benchmark::DoNotOptimize(advice == Advice::kReadIntoBuffer
                                 ? ReadAndHash(file.fd(), &buffer)
                                 : MapAndHash(file.fd(), advice));
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(kBlockBytes));
}

void BM_Cold(benchmark::State& state, Advice advice) {
  Open(state, advice, true);
}
void BM_Warm(benchmark::State& state, Advice advice) {
  Open(state, advice, false);
}
BENCHMARK_CAPTURE(BM_Cold, none, Advice::kNone)->UseRealTime();
BENCHMARK_CAPTURE(BM_Cold, sequential, Advice::kSequential)->UseRealTime();
BENCHMARK_CAPTURE(BM_Cold, will_need, Advice::kWillNeed)->UseRealTime();
BENCHMARK_CAPTURE(BM_Cold, populate, Advice::kPopulate)->UseRealTime();
BENCHMARK_CAPTURE(BM_Cold, read, Advice::kReadIntoBuffer)->UseRealTime();
BENCHMARK_CAPTURE(BM_Warm, none, Advice::kNone)->UseRealTime();
BENCHMARK_CAPTURE(BM_Warm, will_need, Advice::kWillNeed)->UseRealTime();
BENCHMARK_CAPTURE(BM_Warm, populate, Advice::kPopulate)->UseRealTime();
BENCHMARK_CAPTURE(BM_Warm, read, Advice::kReadIntoBuffer)->UseRealTime();

}  // namespace
}  // namespace nexus::kv

BENCHMARK_MAIN();
