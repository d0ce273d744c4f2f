// FileSystem: what the store needs of a disk, behind an interface that tests
// can fail on purpose (full disk, lost write, crash between write and rename).
#ifndef NEXUS_BASE_FILE_SYSTEM_H_
#define NEXUS_BASE_FILE_SYSTEM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/result.h"

namespace nexus {

// A file being written from front to back. Thread-compatible.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  virtual Status Append(const void* data, size_t byte_count) = 0;
  // Flushes to the disk (fsync); a file isn't durable before that.
  virtual Status Sync() = 0;
  // Reports errors that closing brings; the destructor closes silently.
  virtual Status Close() = 0;
};

// Thread-safe.
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  // Creates or truncates; mode 0600.
  virtual Result<std::unique_ptr<WritableFile>> NewWritableFile(
      const std::string& path) = 0;
  virtual Result<std::string> ReadFile(const std::string& path) = 0;
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  virtual Status SyncDir(const std::string& path) = 0;
  virtual Status Remove(const std::string& path) = 0;
  // Makes parents too; mode 0700 for what it makes.
  virtual Status CreateDirs(const std::string& path) = 0;
  virtual Result<uint64_t> FileSize(const std::string& path) = 0;
  virtual bool Exists(const std::string& path) = 0;
  // Names (not paths), sorted.
  virtual Result<std::vector<std::string>> ListDir(const std::string& path) = 0;

  static FileSystem& Default();
};

// Writes `bytes` to a temporary name beside `path`, fsyncs, renames, fsyncs the
// folder: readers see the old file or the whole new one, never a part. On error
// the temporary file is removed.
Status WriteFileAtomically(FileSystem& fs, const std::string& path,
                           std::string_view bytes);

// A name for a temporary file beside `path` that no other process uses.
std::string TemporaryNameFor(const std::string& path);

// $NEXUS_CACHE_DIR, else $XDG_CACHE_HOME/nexus, else ~/.cache/nexus.
std::string UserCacheDir();

}  // namespace nexus

#endif  // NEXUS_BASE_FILE_SYSTEM_H_
