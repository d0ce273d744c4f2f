#include "nexus/base/file_system.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <utility>

#include "nexus/base/unique_fd.h"

namespace nexus {
namespace {

constexpr size_t kReadBytes = size_t{64} << 10;

// On macOS fsync stops at the drive's cache.
int SyncFd(int fd) {
#ifdef F_FULLFSYNC
  if (::fcntl(fd, F_FULLFSYNC) == 0) return 0;
#endif
  return ::fsync(fd);
}

std::string ParentOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

class PosixWritableFile : public WritableFile {
 public:
  PosixWritableFile(UniqueFd fd, std::string path)
      : fd_(std::move(fd)), path_(std::move(path)) {}

  Status Append(const void* data, size_t byte_count) override {
    const char* from = static_cast<const char*>(data);
    while (byte_count > 0) {
      const ssize_t written = ::write(fd_.get(), from, byte_count);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return ErrnoError("write", path_, errno);
      from += written;
      byte_count -= static_cast<size_t>(written);
    }
    return Status::Ok();
  }

  Status Sync() override {
    if (SyncFd(fd_.get()) != 0) return ErrnoError("sync", path_, errno);
    return Status::Ok();
  }

  Status Close() override {
    const int fd = fd_.Release();
    // Not again on EINTR: Linux has released the descriptor by then.
    if (fd >= 0 && ::close(fd) != 0 && errno != EINTR) {
      return ErrnoError("close", path_, errno);
    }
    return Status::Ok();
  }

 private:
  UniqueFd fd_;
  const std::string path_;
};

class PosixFileSystem : public FileSystem {
 public:
  Result<std::unique_ptr<WritableFile>> NewWritableFile(
      const std::string& path) override {
    constexpr mode_t kOwnerOnly = 0600;
    UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
                       kOwnerOnly));
    if (!fd.valid()) return ErrnoError("create", path, errno);
    return std::unique_ptr<WritableFile>(
        std::make_unique<PosixWritableFile>(std::move(fd), path));
  }

  Result<std::string> ReadFile(const std::string& path) override {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) return ErrnoError("open", path, errno);
    // The size is only a hint: pipes have none, and files may grow.
    std::string bytes;
    struct stat info = {};
    if (::fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode)) {
      bytes.reserve(static_cast<size_t>(info.st_size));
    }
    std::vector<char> buffer(kReadBytes);
    for (;;) {
      const ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return ErrnoError("read", path, errno);
      if (count == 0) return bytes;
      bytes.append(buffer.data(), static_cast<size_t>(count));
    }
  }

  Status Rename(const std::string& from, const std::string& to) override {
    if (std::rename(from.c_str(), to.c_str()) != 0) {
      return ErrnoError("rename " + from + " to", to, errno);
    }
    return Status::Ok();
  }

  Status SyncDir(const std::string& path) override {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd.valid()) return ErrnoError("open", path, errno);
    // EINVAL: a file system whose folders can't be synced, such as some network
    // mounts; there is nothing more to do for them.
    if (SyncFd(fd.get()) != 0 && errno != EINVAL) {
      return ErrnoError("sync", path, errno);
    }
    return Status::Ok();
  }

  Status Remove(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) return ErrnoError("remove", path, errno);
    return Status::Ok();
  }

  Status CreateDirs(const std::string& path) override {
    constexpr mode_t kOwnerOnly = 0700;
    for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
      const std::string prefix = path.substr(0, end);
      // Another process may make the same folder at the same time.
      if (::mkdir(prefix.c_str(), kOwnerOnly) != 0 && errno != EEXIST) {
        const int error = errno;
        struct stat info = {};
        // Read-only or foreign parents answer EROFS or EACCES before EEXIST.
        if (::stat(prefix.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
          return ErrnoError("create folder", prefix, error);
        }
      }
      if (end == std::string::npos) break;
    }
    struct stat info = {};
    if (::stat(path.c_str(), &info) != 0) {
      return ErrnoError("create folder", path, errno);
    }
    if (!S_ISDIR(info.st_mode)) {
      return ErrnoError("create folder", path, ENOTDIR);
    }
    return Status::Ok();
  }

  Result<uint64_t> FileSize(const std::string& path) override {
    struct stat info = {};
    if (::stat(path.c_str(), &info) != 0) {
      return ErrnoError("stat", path, errno);
    }
    return static_cast<uint64_t>(info.st_size);
  }

  bool Exists(const std::string& path) override {
    return ::access(path.c_str(), F_OK) == 0;
  }

  Result<std::vector<std::string>> ListDir(const std::string& path) override {
    std::error_code error;
    std::filesystem::directory_iterator entry(path, error);
    std::vector<std::string> names;
    while (!error && entry != std::filesystem::directory_iterator()) {
      names.push_back(entry->path().filename().string());
      entry.increment(error);
    }
    if (error) return ErrnoError("list", path, error.value());
    std::sort(names.begin(), names.end());
    return names;
  }
};

Status WriteTemporary(FileSystem& fs, const std::string& path,
                      std::string_view bytes) {
  NEXUS_ASSIGN_OR_RETURN(auto file, fs.NewWritableFile(path));
  NEXUS_RETURN_IF_ERROR(file->Append(bytes.data(), bytes.size()));
  NEXUS_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

std::string HomeDir() {
  if (const char* home = std::getenv("HOME");
      home != nullptr && *home != '\0') {
    return home;
  }
  // Services may run without HOME; the password file still knows it.
  passwd entry = {};
  passwd* found = nullptr;
  std::array<char, 4096> buffer;
  if (::getpwuid_r(::getuid(), &entry, buffer.data(), buffer.size(), &found) ==
          0 &&
      found != nullptr) {
    return found->pw_dir;
  }
  return ".";
}

}  // namespace

FileSystem& FileSystem::Default() {
  static PosixFileSystem file_system;
  return file_system;
}

Status WriteFileAtomically(FileSystem& fs, const std::string& path,
                           std::string_view bytes) {
  const std::string temporary = TemporaryNameFor(path);
  Status status = WriteTemporary(fs, temporary, bytes);
  if (status.ok()) status = fs.Rename(temporary, path);
  if (!status.ok()) {
    // The first error is the one to report.
    static_cast<void>(fs.Remove(temporary));
    return status;
  }
  return fs.SyncDir(ParentOf(path));
}

std::string TemporaryNameFor(const std::string& path) {
  // Random and not the process id: two containers that share a store may have
  // equal ids.
  std::random_device random;
  char suffix[32];
  std::snprintf(suffix, sizeof(suffix), ".tmp.%08x%08x",
                static_cast<unsigned>(random()),
                static_cast<unsigned>(random()));
  return path + suffix;
}

std::string UserCacheDir() {
  if (const char* dir = std::getenv("NEXUS_CACHE_DIR");
      dir != nullptr && *dir != '\0') {
    return dir;
  }
  // The XDG specification says to ignore relative paths.
  if (const char* dir = std::getenv("XDG_CACHE_HOME");
      dir != nullptr && *dir == '/') {
    return std::string(dir) + "/nexus";
  }
  return HomeDir() + "/.cache/nexus";
}

}  // namespace nexus
