// MappedFile: a whole file mapped read-only.
//
// The file must not be changed in place while mapped: truncation raises SIGBUS
// on access. Block files are written once under a temporary name and renamed,
// in an owner-only folder, so only a hostile or broken writer can cause it.
#ifndef NEXUS_BASE_MAPPED_FILE_H_
#define NEXUS_BASE_MAPPED_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "nexus/base/result.h"

namespace nexus {

// Move-only. Thread-compatible; the bytes may be read from any thread.
class MappedFile {
 public:
  // kNotFound, kIoError, or kCorruption for an empty file or a non-file.
  static Result<MappedFile> Open(const std::string& path);

  MappedFile() = default;
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const uint8_t> bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

  // madvise(MADV_WILLNEED): starts reading the pages in the background.
  void Prefetch() const;
  // Bytes of the mapping now resident in memory (mincore), for statistics.
  size_t ResidentBytes() const;

 private:
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  std::string path_;
};

}  // namespace nexus

#endif  // NEXUS_BASE_MAPPED_FILE_H_
