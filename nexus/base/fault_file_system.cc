#include "nexus/base/fault_file_system.h"

#include <cerrno>
#include <utility>

namespace nexus {
namespace {

Status FaultStatus(FaultFileSystem::Fault fault, const std::string& action,
                   const std::string& path) {
  const bool full = fault == FaultFileSystem::Fault::kNoSpace ||
                    fault == FaultFileSystem::Fault::kShortWrite;
  return ErrnoError(action, path, full ? ENOSPC : EIO);
}

}  // namespace

class FaultFileSystem::File : public WritableFile {
 public:
  File(FaultFileSystem& owner, std::unique_ptr<WritableFile> file,
       std::string path)
      : owner_(owner), file_(std::move(file)), path_(std::move(path)) {}

  Status Append(const void* data, size_t byte_count) override {
    NEXUS_RETURN_IF_ERROR(owner_.CheckPower(path_));
    owner_.SetSynced(path_, false);
    const auto fault = owner_.Enter(Operation::kAppend);
    if (!fault || *fault == Fault::kLostSync) {
      return file_->Append(data, byte_count);
    }
    if (*fault == Fault::kShortWrite) {
      NEXUS_RETURN_IF_ERROR(file_->Append(data, byte_count / 2));
    }
    return FaultStatus(*fault, "write", path_);
  }

  Status Sync() override {
    NEXUS_RETURN_IF_ERROR(owner_.CheckPower(path_));
    const auto fault = owner_.Enter(Operation::kSync);
    if (fault && *fault == Fault::kLostSync) return Status::Ok();
    if (fault) return FaultStatus(*fault, "sync", path_);
    NEXUS_RETURN_IF_ERROR(file_->Sync());
    owner_.SetSynced(path_, true);
    return Status::Ok();
  }

  Status Close() override {
    NEXUS_RETURN_IF_ERROR(owner_.CheckPower(path_));
    return file_->Close();
  }

 private:
  FaultFileSystem& owner_;
  const std::unique_ptr<WritableFile> file_;
  const std::string path_;
};

void FaultFileSystem::FailNth(Operation operation, int nth, Fault fault) {
  MutexLock lock(mutex_);
  plan_ = Plan{operation, nth, fault};
}

void FaultFileSystem::Crash() {
  MutexLock lock(mutex_);
  if (crashed_) return;
  crashed_ = true;
  for (const std::string& path : unsynced_) {
    // Creating truncates. A file that is gone already has nothing to lose.
    if (!base_.Exists(path)) continue;
    if (auto file = base_.NewWritableFile(path); file.ok()) {
      static_cast<void>((*file)->Close());
    }
  }
  unsynced_.clear();
}

void FaultFileSystem::Restart() {
  MutexLock lock(mutex_);
  crashed_ = false;
}

bool FaultFileSystem::crashed() const {
  MutexLock lock(mutex_);
  return crashed_;
}

int FaultFileSystem::CallCount(Operation operation) const {
  MutexLock lock(mutex_);
  const auto found = calls_.find(operation);
  return found == calls_.end() ? 0 : found->second;
}

std::optional<FaultFileSystem::Fault> FaultFileSystem::Enter(
    Operation operation) {
  Fault fault;
  {
    MutexLock lock(mutex_);
    ++calls_[operation];
    if (!plan_ || plan_->operation != operation || --plan_->calls_left > 0) {
      return std::nullopt;
    }
    fault = plan_->fault;
    plan_.reset();
  }
  if (fault == Fault::kCrash) Crash();
  return fault;
}

Status FaultFileSystem::CheckPower(const std::string& path) const {
  if (crashed()) return ErrnoError("use after the crash", path, EIO);
  return Status::Ok();
}

void FaultFileSystem::SetSynced(const std::string& path, bool synced) {
  MutexLock lock(mutex_);
  if (synced) {
    unsynced_.erase(path);
  } else {
    unsynced_.insert(path);
  }
}

Result<std::unique_ptr<WritableFile>> FaultFileSystem::NewWritableFile(
    const std::string& path) {
  NEXUS_RETURN_IF_ERROR(CheckPower(path));
  if (const auto fault = Enter(Operation::kCreate);
      fault && *fault != Fault::kLostSync) {
    return FaultStatus(*fault, "create", path);
  }
  NEXUS_ASSIGN_OR_RETURN(auto file, base_.NewWritableFile(path));
  SetSynced(path, false);
  return std::unique_ptr<WritableFile>(
      std::make_unique<File>(*this, std::move(file), path));
}

Result<std::string> FaultFileSystem::ReadFile(const std::string& path) {
  NEXUS_RETURN_IF_ERROR(CheckPower(path));
  return base_.ReadFile(path);
}

Status FaultFileSystem::Rename(const std::string& from, const std::string& to) {
  NEXUS_RETURN_IF_ERROR(CheckPower(from));
  if (const auto fault = Enter(Operation::kRename);
      fault && *fault != Fault::kLostSync) {
    return FaultStatus(*fault, "rename", from);
  }
  NEXUS_RETURN_IF_ERROR(base_.Rename(from, to));
  MutexLock lock(mutex_);
  // The bytes keep their state under the new name.
  const bool lost = unsynced_.erase(from) > 0;
  unsynced_.erase(to);
  if (lost) unsynced_.insert(to);
  return Status::Ok();
}

Status FaultFileSystem::SyncDir(const std::string& path) {
  NEXUS_RETURN_IF_ERROR(CheckPower(path));
  if (const auto fault = Enter(Operation::kSyncDir)) {
    if (*fault == Fault::kLostSync) return Status::Ok();
    return FaultStatus(*fault, "sync", path);
  }
  return base_.SyncDir(path);
}

Status FaultFileSystem::Remove(const std::string& path) {
  NEXUS_RETURN_IF_ERROR(CheckPower(path));
  NEXUS_RETURN_IF_ERROR(base_.Remove(path));
  SetSynced(path, true);
  return Status::Ok();
}

Status FaultFileSystem::CreateDirs(const std::string& path) {
  NEXUS_RETURN_IF_ERROR(CheckPower(path));
  return base_.CreateDirs(path);
}

Result<uint64_t> FaultFileSystem::FileSize(const std::string& path) {
  NEXUS_RETURN_IF_ERROR(CheckPower(path));
  return base_.FileSize(path);
}

bool FaultFileSystem::Exists(const std::string& path) {
  return !crashed() && base_.Exists(path);
}

Result<std::vector<std::string>> FaultFileSystem::ListDir(
    const std::string& path) {
  NEXUS_RETURN_IF_ERROR(CheckPower(path));
  return base_.ListDir(path);
}

}  // namespace nexus
