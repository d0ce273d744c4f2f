// Test-only: runs a test once for every instruction set that was compiled and
// that this CPU has, and buffers that end at an unreadable page.
#ifndef NEXUS_SIMD_TARGET_TEST_H_
#define NEXUS_SIMD_TARGET_TEST_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "hwy/highway.h"

#include "nexus/base/check.h"

namespace nexus::simd {

class TargetTest : public testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override { Select(GetParam()); }
  void TearDown() override { Select(0); }

 private:
  // Zero gives the choice back to the CPU.
  static void Select(int64_t targets) {
    hwy::SetSupportedTargetsForTest(targets);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

inline std::string TargetTestName(const testing::TestParamInfo<int64_t>& info) {
  return hwy::TargetName(info.param);
}

#define NEXUS_INSTANTIATE_TARGET_TEST(suite)                    \
  INSTANTIATE_TEST_SUITE_P(                                     \
      AllTargets, suite,                                        \
      testing::ValuesIn(::hwy::SupportedAndGeneratedTargets()), \
      ::nexus::simd::TargetTestName)

// Elements that end where an unreadable page begins: one byte too far is a
// crash, with or without a sanitizer. Odd sizes make the start misaligned.
template <typename T>
class GuardedArray {
 public:
  explicit GuardedArray(size_t size) : size_(size) {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    const size_t usable = (size * sizeof(T) + page - 1) / page * page;
    mapped_bytes_ = usable + page;
    void* address = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    NEXUS_CHECK(address != MAP_FAILED);
    base_ = static_cast<uint8_t*>(address);
    NEXUS_CHECK(::mprotect(base_ + usable, page, PROT_NONE) == 0);
    data_ = reinterpret_cast<T*>(base_ + usable - size * sizeof(T));
  }
  ~GuardedArray() { ::munmap(base_, mapped_bytes_); }
  GuardedArray(const GuardedArray&) = delete;
  GuardedArray& operator=(const GuardedArray&) = delete;

  T* data() { return data_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data_[i]; }

 private:
  size_t size_;
  size_t mapped_bytes_;
  uint8_t* base_;
  T* data_;
};

}  // namespace nexus::simd

#endif  // NEXUS_SIMD_TARGET_TEST_H_
