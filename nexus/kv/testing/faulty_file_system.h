// FaultyFileSystem: the real file system until a chosen call, which then goes
// wrong.
#ifndef NEXUS_KV_TESTING_FAULTY_FILE_SYSTEM_H_
#define NEXUS_KV_TESTING_FAULTY_FILE_SYSTEM_H_

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nexus/base/file_system.h"

namespace nexus::kv::testing {

enum class Fault {
  kDiskFull,    // the call fails with kResourceExhausted
  kCrash,       // this call and all after it have no effect and fail
  kShortWrite,  // an Append takes half of its bytes and says Ok
};

// Calls that change the disk are counted from 0: create, append, sync, close,
// rename, sync folder. Removals are not counted, and happen unless the
// "process" has crashed.
class FaultyFileSystem : public FileSystem {
 public:
  FaultyFileSystem(Fault fault, int at_call) : fault_(fault), left_(at_call) {}

  // Whether the chosen call was reached.
  bool fired() const { return left_ < 0; }

  Result<std::unique_ptr<WritableFile>> NewWritableFile(
      const std::string& path) override {
    NEXUS_RETURN_IF_ERROR(Next("create " + path));
    NEXUS_ASSIGN_OR_RETURN(auto file, real_.NewWritableFile(path));
    return std::unique_ptr<WritableFile>(
        std::make_unique<File>(this, std::move(file), path));
  }
  Result<std::string> ReadFile(const std::string& path) override {
    return real_.ReadFile(path);
  }
  Status Rename(const std::string& from, const std::string& to) override {
    NEXUS_RETURN_IF_ERROR(Next("rename " + from));
    return real_.Rename(from, to);
  }
  Status SyncDir(const std::string& path) override {
    NEXUS_RETURN_IF_ERROR(Next("sync " + path));
    return real_.SyncDir(path);
  }
  Status Remove(const std::string& path) override {
    if (fault_ == Fault::kCrash && fired()) return IoError("crashed");
    return real_.Remove(path);
  }
  Status CreateDirs(const std::string& path) override {
    return real_.CreateDirs(path);
  }
  Result<uint64_t> FileSize(const std::string& path) override {
    return real_.FileSize(path);
  }
  bool Exists(const std::string& path) override { return real_.Exists(path); }
  Result<std::vector<std::string>> ListDir(const std::string& path) override {
    return real_.ListDir(path);
  }

 private:
  class File : public WritableFile {
   public:
    File(FaultyFileSystem* owner, std::unique_ptr<WritableFile> file,
         std::string path)
        : owner_(owner), file_(std::move(file)), path_(std::move(path)) {}
    Status Append(const void* data, size_t byte_count) override {
      const bool was_fired = owner_->fired();
      NEXUS_RETURN_IF_ERROR(owner_->Next("write " + path_));
      if (!was_fired && owner_->fired()) byte_count /= 2;
      return file_->Append(data, byte_count);
    }
    Status Sync() override {
      NEXUS_RETURN_IF_ERROR(owner_->Next("sync " + path_));
      return file_->Sync();
    }
    Status Close() override {
      NEXUS_RETURN_IF_ERROR(owner_->Next("close " + path_));
      return file_->Close();
    }

   private:
    FaultyFileSystem* owner_;
    std::unique_ptr<WritableFile> file_;
    std::string path_;
  };

  Status Next(const std::string& what) {
    const bool now = left_-- == 0;
    if (fault_ == Fault::kCrash && left_ < 0)
      return IoError(what + ": crashed");
    if (fault_ == Fault::kDiskFull && now) {
      return ResourceExhaustedError(what + ": no space left on device");
    }
    return Status::Ok();
  }

  FileSystem& real_ = FileSystem::Default();
  const Fault fault_;
  int left_;
};

}  // namespace nexus::kv::testing

#endif  // NEXUS_KV_TESTING_FAULTY_FILE_SYSTEM_H_
