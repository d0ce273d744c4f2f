#include "nexus/kv/block_folder.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <functional>
#include <system_error>
#include <thread>

namespace nexus::kv {
namespace {

constexpr size_t kKeyHexDigits = 64;
// Write times move in ticks of up to 10 ms: what is written in the tick of a
// listing, and after it, leaves the time as it was. A listing counts only when
// the last change was well before it.
constexpr auto kSettleTime = std::chrono::milliseconds(100);

}  // namespace

std::string FileNameOf(const std::string& key_hex, int generation) {
  return key_hex + "-" + std::to_string(generation) + std::string(kBlockSuffix);
}

std::optional<BlockFileName> ParseFileName(std::string_view name) {
  if (!name.ends_with(kBlockSuffix)) return std::nullopt;
  name.remove_suffix(kBlockSuffix.size());
  if (name.size() < kKeyHexDigits + 2 || name[kKeyHexDigits] != '-') {
    return std::nullopt;
  }
  BlockFileName parsed;
  parsed.key_hex = name.substr(0, kKeyHexDigits);
  if (parsed.key_hex.find_first_not_of("0123456789abcdef") !=
      std::string::npos) {
    return std::nullopt;
  }
  const char* end = name.data() + name.size();
  const auto [stop, error] =
      std::from_chars(name.data() + kKeyHexDigits + 1, end, parsed.generation);
  if (error != std::errc() || stop != end || parsed.generation < 0) {
    return std::nullopt;
  }
  // "-07" would be a second name of generation 7.
  if (name.substr(kKeyHexDigits + 1) != std::to_string(parsed.generation)) {
    return std::nullopt;
  }
  return parsed;
}

std::filesystem::file_time_type WriteTime(const std::string& path) {
  std::error_code error;
  const auto time = std::filesystem::last_write_time(path, error);
  return error ? std::filesystem::file_time_type::max() : time;
}

FolderLock::FolderLock(const std::string& path, int timeout_ms)
    : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
  constexpr int kStepMs = 10;
  for (int waited = 0; fd_.valid() && waited <= timeout_ms; waited += kStepMs) {
    if (::flock(fd_.get(), LOCK_EX | LOCK_NB) == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(kStepMs));
  }
}

std::vector<int> BlockNames::Generations(const std::string& key_hex) {
  Refresh();
  if (const auto found = generations_.find(key_hex);
      found != generations_.end()) {
    return found->second;
  }
  // A file system whose clock is not ours (a network share) may hide a change
  // for a while; almost every block is of generation 0, and a miss costs
  // seconds of decoding.
  if (fs_->Exists(dir_ + "/" + FileNameOf(key_hex, 0))) return {0};
  return {};
}

void BlockNames::Refresh() {
  const std::filesystem::file_time_type time = WriteTime(dir_);
  if (listed_ == time) return;
  const auto now = std::filesystem::file_time_type::clock::now();
  listed_.reset();
  generations_.clear();
  const Result<std::vector<std::string>> names = fs_->ListDir(dir_);
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (std::optional<BlockFileName> parsed = ParseFileName(name)) {
      generations_[std::move(parsed->key_hex)].push_back(parsed->generation);
    }
  }
  for (auto& [key_hex, generations] : generations_) {
    std::sort(generations.begin(), generations.end(), std::greater<>());
  }
  if (time < now - kSettleTime) listed_ = time;
}

}  // namespace nexus::kv
