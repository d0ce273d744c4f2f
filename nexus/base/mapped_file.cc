#include "nexus/base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "nexus/base/unique_fd.h"

namespace nexus {
namespace {

size_t PageBytes() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

// mmap and friends take a mutable pointer even for read-only mappings.
void* Address(const uint8_t* data) {
  return const_cast<uint8_t*>(data);  // NOLINT
}

}  // namespace

Result<MappedFile> MappedFile::Open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO that took a block's name must not hang.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return ErrnoError("open", path, errno);
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0) return ErrnoError("stat", path, errno);
  if (!S_ISREG(info.st_mode)) {
    return CorruptionError(
        "map " + path + ": expected a regular file, found " +
        (S_ISDIR(info.st_mode) ? "a directory" : "a device, pipe or socket"));
  }
  if (info.st_size == 0) {
    return CorruptionError("map " + path +
                           ": the file is empty; remove it, so that it can be "
                           "written anew");
  }
  MappedFile file;
  file.path_ = path;
  const auto size = static_cast<size_t>(info.st_size);
  void* address =
      ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), /*offset=*/0);
  if (address == MAP_FAILED) return ErrnoError("map", path, errno);
  file.data_ = static_cast<const uint8_t*>(address);
  file.size_ = size;
  return file;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(Address(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  // The old mapping goes away with `other`.
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

void MappedFile::Prefetch() const {
  // Only advice: without it the pages are read when they are touched.
  if (data_ != nullptr) ::madvise(Address(data_), size_, MADV_WILLNEED);
}

size_t MappedFile::ResidentBytes() const {
  if (data_ == nullptr) return 0;
  const size_t page = PageBytes();
#ifdef __APPLE__
  using PageState = char;
#else
  using PageState = unsigned char;
#endif
  std::vector<PageState> states((size_ + page - 1) / page);
  if (::mincore(Address(data_), size_, states.data()) != 0) return 0;
  const auto resident = static_cast<size_t>(
      std::count_if(states.begin(), states.end(),
                    [](PageState state) { return (state & 1) != 0; }));
  // The last page reaches past the end of the file.
  return std::min(resident * page, size_);
}

}  // namespace nexus
