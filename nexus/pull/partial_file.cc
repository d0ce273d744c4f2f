#include "nexus/pull/partial_file.h"

#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "nexus/base/file_system.h"
#include "nexus/base/json.h"

namespace nexus::pull {
namespace {

namespace fs = std::filesystem;

Status WriteAll(int fd, const char* data, size_t size,
                const std::string& path) {
  while (size > 0) {
    const ssize_t wrote = ::write(fd, data, size);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0 && (errno == ENOSPC || errno == EDQUOT)) {
      return ResourceExhaustedError(
          "disk full while writing " + path +
          "; free some space and pull again: the parts before are kept");
    }
    if (wrote < 0) return ErrnoError("write", path, errno);
    data += wrote;
    size -= static_cast<size_t>(wrote);
  }
  return Status::Ok();
}

Status CopyInto(int to, const std::string& to_path,
                const std::string& from_path) {
  UniqueFd from(::open(from_path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!from.valid()) return ErrnoError("open", from_path, errno);
  std::vector<char> piece(size_t{1} << 20);
  while (true) {
    const ssize_t got = ::read(from.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoError("read", from_path, errno);
    if (got == 0) return Status::Ok();
    NEXUS_RETURN_IF_ERROR(
        WriteAll(to, piece.data(), static_cast<size_t>(got), to_path));
  }
}

}  // namespace

Result<PartialFile> PartialFile::Open(const ModelSpec& spec,
                                      const std::string& data_path,
                                      const std::string& record_path) {
  PartialFile partial(spec, data_path, record_path);
  partial.ReadRecord();
  partial.fd_.Reset(
      ::open(data_path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!partial.fd_.valid()) return ErrnoError("open", data_path, errno);
  if (::ftruncate(partial.fd_.get(), static_cast<off_t>(partial.bytes_done_)) !=
      0) {
    return ErrnoError("truncate", data_path, errno);
  }
  if (::lseek(partial.fd_.get(), 0, SEEK_END) < 0) {
    return ErrnoError("seek", data_path, errno);
  }
  return partial;
}

PartialFile::PartialFile(const ModelSpec& spec, std::string data_path,
                         std::string record_path)
    : spec_(&spec),
      data_path_(std::move(data_path)),
      record_path_(std::move(record_path)) {}

void PartialFile::ReadRecord() {
  const Result<std::string> text = FileSystem::Default().ReadFile(record_path_);
  if (!text.ok()) return;
  const Result<Json> record = ParseJson(*text, record_path_);
  if (!record.ok() || !record->is_object()) return;
  const auto sha256 = record->find("sha256");
  const auto parts = record->find("parts");
  const auto bytes = record->find("bytes");
  if (sha256 == record->end() || !sha256->is_string() ||
      sha256->get<std::string>() != spec_->sha256 || parts == record->end() ||
      !parts->is_number_unsigned() || bytes == record->end() ||
      !bytes->is_number_unsigned()) {
    return;
  }
  const auto parts_recorded = parts->get<uint64_t>();
  const auto bytes_recorded = bytes->get<uint64_t>();
  std::error_code error;
  const uint64_t bytes_held = fs::file_size(data_path_, error);
  if (error || bytes_recorded > bytes_held || bytes_recorded > spec_->bytes ||
      parts_recorded > spec_->packages.size()) {
    return;
  }
  parts_done_ = static_cast<size_t>(parts_recorded);
  bytes_done_ = bytes_recorded;
}

Status PartialFile::WriteRecord(size_t parts, uint64_t bytes) const {
  const Json record = {
      {"sha256", spec_->sha256}, {"parts", parts}, {"bytes", bytes}};
  return WriteFileAtomically(FileSystem::Default(), record_path_,
                             DumpJson(record) + "\n");
}

Status PartialFile::AppendPart(const std::string& part_path) {
  std::error_code error;
  const uint64_t part_bytes = fs::file_size(part_path, error);
  if (error) return ErrnoError("stat", part_path, error.value());
  if (part_bytes > spec_->bytes - bytes_done_) {
    return CorruptionError("part " + std::to_string(parts_done_ + 1) + " of " +
                           spec_->name + " has " + std::to_string(part_bytes) +
                           " bytes, expected at most " +
                           std::to_string(spec_->bytes - bytes_done_));
  }
  Status status = CopyInto(fd_.get(), data_path_, part_path);
  if (status.ok() && ::fsync(fd_.get()) != 0) {
    status = ErrnoError("fsync", data_path_, errno);
  }
  if (status.ok()) {
    status = WriteRecord(parts_done_ + 1, bytes_done_ + part_bytes);
  }
  if (!status.ok()) {
    // Back to the last recorded end, so that a retry in this process is safe.
    if (::ftruncate(fd_.get(), static_cast<off_t>(bytes_done_)) != 0 ||
        ::lseek(fd_.get(), 0, SEEK_END) < 0) {
      return status.WithContext("and could not be cut back");
    }
    return status;
  }
  ++parts_done_;
  bytes_done_ += part_bytes;
  return Status::Ok();
}

}  // namespace nexus::pull
