// The digest of a model file, remembered by what the file system says of it.
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "nexus/base/file_system.h"
#include "nexus/base/json.h"
#include "nexus/llm/model.h"

namespace nexus::llm {
namespace {

// Old entries are dropped wholesale past this; a rebuild costs a second a
// model.
constexpr size_t kMaxEntries = 256;

// Changes when the file is replaced or written to. "size:mtime:inode".
Result<std::string> FileStamp(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    return ErrnoError("stat", path, errno);
  }
#ifdef __APPLE__
  const timespec& modified = info.st_mtimespec;
#else
  const timespec& modified = info.st_mtim;
#endif
  return std::to_string(info.st_size) + ":" + std::to_string(modified.tv_sec) +
         "." + std::to_string(modified.tv_nsec) + ":" +
         std::to_string(info.st_ino);
}

// A damaged or foreign cache is an empty one: it only saves time.
Json ReadCache(FileSystem& fs, const std::string& path) {
  const auto text = fs.ReadFile(path);
  if (!text.ok()) return Json::object();
  auto parsed = ParseJson(*text, path);
  if (!parsed.ok() || !parsed->is_object()) return Json::object();
  return *std::move(parsed);
}

}  // namespace

Result<Sha256Digest> ModelFileHash(const std::string& model_path,
                                   const std::string& cache_dir) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(model_path, error);
  const std::string key = error ? model_path : absolute.string();
  NEXUS_ASSIGN_OR_RETURN(const std::string stamp, FileStamp(model_path));

  FileSystem& fs = FileSystem::Default();
  const std::string cache_path = cache_dir + "/model_hashes.json";
  Json cache = ReadCache(fs, cache_path);
  if (const auto it = cache.find(key); it != cache.end() && it->is_object()) {
    const auto known = it->find("stamp");
    const auto hex = it->find("sha256");
    if (known != it->end() && *known == stamp && hex != it->end() &&
        hex->is_string()) {
      auto digest = ParseSha256Hex(hex->get_ref<const std::string&>());
      if (digest.ok()) return *digest;
    }
  }
  NEXUS_ASSIGN_OR_RETURN(const Sha256Digest digest, Sha256OfFile(model_path));
  // A file written to while it was read has no digest worth keeping.
  NEXUS_ASSIGN_OR_RETURN(const std::string stamp_after, FileStamp(model_path));
  if (stamp_after != stamp) return digest;
  if (cache.size() >= kMaxEntries) cache = Json::object();
  cache[key] = {{"stamp", stamp}, {"sha256", ToHex(digest)}};
  // A cache that can't be written costs a second next time, nothing else.
  Status written = fs.CreateDirs(cache_dir);
  if (written.ok()) {
    written = WriteFileAtomically(fs, cache_path, DumpJson(cache, 1));
  }
  static_cast<void>(written);
  return digest;
}

}  // namespace nexus::llm
