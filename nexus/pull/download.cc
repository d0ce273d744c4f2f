#include "nexus/pull/download.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "nexus/base/file_system.h"
#include "nexus/base/hash.h"
#include "nexus/base/json.h"

namespace nexus::pull {
namespace {

namespace fs = std::filesystem;

// What FILE.verified holds: the file that was hashed, and the result.
struct Verified {
  uint64_t bytes = 0;
  int64_t mtime = 0;  // in the file system clock's own ticks
  std::string sha256;
};

Result<Verified> Describe(const std::string& path, std::string sha256) {
  std::error_code error;
  Verified verified;
  verified.bytes = fs::file_size(path, error);
  if (error) return ErrnoError("stat", path, error.value());
  verified.mtime = fs::last_write_time(path, error).time_since_epoch().count();
  if (error) return ErrnoError("stat", path, error.value());
  verified.sha256 = std::move(sha256);
  return verified;
}

// A damaged or missing side file only costs a hash, so no error comes of it.
Verified ReadVerified(const std::string& path) {
  Verified verified;
  const Result<std::string> text = FileSystem::Default().ReadFile(path);
  if (!text.ok()) return verified;
  const Result<Json> json = ParseJson(*text, path);
  if (!json.ok() || !json->is_object()) return verified;
  const auto bytes = json->find("bytes");
  const auto mtime = json->find("mtime");
  const auto sha256 = json->find("sha256");
  if (bytes == json->end() || !bytes->is_number_unsigned() ||
      mtime == json->end() || !mtime->is_number_integer() ||
      sha256 == json->end() || !sha256->is_string()) {
    return verified;
  }
  verified.bytes = bytes->get<uint64_t>();
  verified.mtime = mtime->get<int64_t>();
  verified.sha256 = sha256->get<std::string>();
  return verified;
}

}  // namespace

std::string HumanBytes(uint64_t bytes) {
  return std::to_string((bytes + 500'000) / 1'000'000) + " MB";
}

Result<Download> Download::Begin(const std::string& file,
                                 const PullOptions& options) {
  const std::string dir =
      options.dest_dir.empty() ? ModelsDir() : options.dest_dir;
  NEXUS_RETURN_IF_ERROR(FileSystem::Default().CreateDirs(dir));
  const std::string final_path = dir + "/" + file;
  const std::string lock_path = final_path + ".lock";
  UniqueFd lock(::open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock.valid()) return ErrnoError("open", lock_path, errno);
  Download download(dir, final_path, options, std::move(lock));
  while (::flock(download.lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return ErrnoError("lock", lock_path, errno);
    }
    if (download.cancelled()) {
      return CancelledError("interrupted while another process pulls " +
                            final_path);
    }
    download.Report(PullProgress::Phase::kWaiting, 0, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return download;
}

Download::Download(std::string dir, std::string final_path,
                   const PullOptions& options, UniqueFd lock)
    : dir_(std::move(dir)),
      final_path_(std::move(final_path)),
      options_(&options),
      lock_(std::move(lock)) {}

Download::~Download() {
  // Moved from, or waiting for the lock's owner, whose scratch folder it is.
  if (!lock_.valid() || ::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) return;
  std::error_code ignored;
  fs::remove_all(scratch_dir(), ignored);
}

bool Download::cancelled() const {
  return options_->cancel != nullptr && options_->cancel->load();
}

Status Download::Interrupted() const {
  return CancelledError("pull of " + final_path_ +
                        " was interrupted; what is complete is kept, and the "
                        "same command resumes");
}

void Download::Report(PullProgress::Phase phase, uint64_t done,
                      uint64_t total) const {
  if (options_->progress) options_->progress({phase, done, total});
}

Result<std::string> Download::HashOf(const std::string& path) const {
  std::error_code error;
  const uint64_t total = fs::file_size(path, error);
  if (error) return ErrnoError("stat", path, error.value());
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoError("open", path, errno);
  // In pieces that take about a tenth of a second, so that Ctrl-C is prompt.
  std::vector<char> piece(size_t{16} << 20);
  Sha256 sha256;
  uint64_t done = 0;
  while (true) {
    if (cancelled()) return Interrupted();
    const ssize_t got = ::read(fd.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoError("read", path, errno);
    if (got == 0) break;
    sha256.Update(piece.data(), static_cast<size_t>(got));
    done += static_cast<uint64_t>(got);
    Report(PullProgress::Phase::kVerifying, done, total);
  }
  return ToHex(sha256.Finish());
}

Status Download::Remember(const std::string& sha256) const {
  NEXUS_ASSIGN_OR_RETURN(const Verified now, Describe(final_path_, sha256));
  const Json json = {
      {"bytes", now.bytes}, {"mtime", now.mtime}, {"sha256", now.sha256}};
  return WriteFileAtomically(FileSystem::Default(), final_path_ + ".verified",
                             DumpJson(json) + "\n");
}

Result<bool> Download::AlreadyHere(const std::string& sha256) const {
  std::error_code error;
  if (!fs::exists(final_path_, error)) return false;
  if (sha256.empty()) {
    NEXUS_RETURN_IF_ERROR(CheckGgufMagic(final_path_));
    return true;
  }
  NEXUS_ASSIGN_OR_RETURN(const Verified now, Describe(final_path_, sha256));
  const Verified before = ReadVerified(final_path_ + ".verified");
  if (before.bytes == now.bytes && before.mtime == now.mtime &&
      before.sha256 == sha256) {
    return true;
  }
  NEXUS_ASSIGN_OR_RETURN(const std::string actual, HashOf(final_path_));
  if (actual != sha256) {
    return CorruptionError(final_path_ + ": SHA-256 is " + actual +
                           ", expected " + sha256 +
                           "; it was not touched: remove it and pull again");
  }
  NEXUS_RETURN_IF_ERROR(Remember(sha256));
  return true;
}

Status Download::CheckFreeBytes(uint64_t needed) const {
  uint64_t available = 0;
  if (options_->free_bytes) {
    NEXUS_ASSIGN_OR_RETURN(available, options_->free_bytes(dir_));
  } else {
    std::error_code error;
    available = fs::space(dir_, error).available;
    if (error) return ErrnoError("read free space of", dir_, error.value());
  }
  if (available >= needed) return Status::Ok();
  return ResourceExhaustedError(
      dir_ + ": " + HumanBytes(available) + " free, " + HumanBytes(needed) +
      " needed; free some space, or set NEXUS_MODELS_DIR to another disk");
}

Status Download::ResetScratch() const {
  std::error_code error;
  fs::remove_all(scratch_dir(), error);
  return FileSystem::Default().CreateDirs(scratch_dir());
}

Status Download::Install(const std::string& sha256) const {
  FileSystem& files = FileSystem::Default();
  Status bad;
  std::string actual = sha256;
  if (!sha256.empty()) {
    NEXUS_ASSIGN_OR_RETURN(actual, HashOf(partial_path()));
    if (actual != sha256) {
      bad = CorruptionError(final_path_ + ": the download's SHA-256 is " +
                            actual + ", expected " + sha256 +
                            "; it was deleted: pull again");
    }
  }
  if (bad.ok()) {
    bad = CheckGgufMagic(partial_path());
    if (!bad.ok()) bad = bad.WithContext("the download was deleted");
  }
  if (!bad.ok()) {
    // The verdict matters more than an error of the clean-up.
    (void)files.Remove(partial_path());
    (void)files.Remove(state_path());
    return bad;
  }
  NEXUS_RETURN_IF_ERROR(files.Rename(partial_path(), final_path_));
  NEXUS_RETURN_IF_ERROR(files.SyncDir(dir_));
  if (files.Exists(state_path())) {
    NEXUS_RETURN_IF_ERROR(files.Remove(state_path()));
  }
  return sha256.empty() ? Status::Ok() : Remember(actual);
}

}  // namespace nexus::pull
