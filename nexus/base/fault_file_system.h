// FaultFileSystem: for tests, a real file system that fails on purpose.
//
// Calls go through to the disk, so code under test sees real files. A fault
// hits the n-th call of one kind; Crash() then does to the disk what a power
// cut may do: files that were never synced lose their bytes, and everything
// later fails until Restart().
#ifndef NEXUS_BASE_FAULT_FILE_SYSTEM_H_
#define NEXUS_BASE_FAULT_FILE_SYSTEM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "nexus/base/file_system.h"
#include "nexus/base/mutex.h"

namespace nexus {

// Thread-safe. `base` must outlive it, and it must outlive its files.
class FaultFileSystem : public FileSystem {
 public:
  enum class Operation { kCreate, kAppend, kSync, kRename, kSyncDir };

  enum class Fault {
    kNoSpace,     // ENOSPC, nothing is written
    kShortWrite,  // half of the bytes are written, then ENOSPC
    kIoError,     // EIO
    kLostSync,    // says ok, but the bytes aren't on the disk
    kCrash,       // the call doesn't happen, and the power goes
  };

  explicit FaultFileSystem(FileSystem& base = FileSystem::Default())
      : base_(base) {}

  // The `nth` (from 1) call of `operation` from now on meets `fault`; others
  // pass. One fault at a time: another call replaces it.
  void FailNth(Operation operation, int nth, Fault fault) EXCLUDES(mutex_);

  // Truncates every file written through this object and not synced since its
  // last write, then refuses every call.
  void Crash() EXCLUDES(mutex_);
  void Restart() EXCLUDES(mutex_);

  bool crashed() const EXCLUDES(mutex_);
  // Calls of `operation` so far, for tests that fail each of them in turn.
  int CallCount(Operation operation) const EXCLUDES(mutex_);

  Result<std::unique_ptr<WritableFile>> NewWritableFile(
      const std::string& path) override;
  Result<std::string> ReadFile(const std::string& path) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Status SyncDir(const std::string& path) override;
  Status Remove(const std::string& path) override;
  Status CreateDirs(const std::string& path) override;
  Result<uint64_t> FileSize(const std::string& path) override;
  bool Exists(const std::string& path) override;
  Result<std::vector<std::string>> ListDir(const std::string& path) override;

 private:
  class File;
  struct Plan {
    Operation operation;
    int calls_left;
    Fault fault;
  };

  // Counts the call; the fault that it meets, if any.
  std::optional<Fault> Enter(Operation operation) EXCLUDES(mutex_);
  Status CheckPower(const std::string& path) const EXCLUDES(mutex_);
  void SetSynced(const std::string& path, bool synced) EXCLUDES(mutex_);

  FileSystem& base_;
  mutable Mutex mutex_;
  std::optional<Plan> plan_ GUARDED_BY(mutex_);
  std::map<Operation, int> calls_ GUARDED_BY(mutex_);
  std::set<std::string> unsynced_ GUARDED_BY(mutex_);
  bool crashed_ GUARDED_BY(mutex_) = false;
};

}  // namespace nexus

#endif  // NEXUS_BASE_FAULT_FILE_SYSTEM_H_
