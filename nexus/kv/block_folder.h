// The folder of a BlockStore: names of its files, and which blocks are there.
#ifndef NEXUS_KV_BLOCK_FOLDER_H_
#define NEXUS_KV_BLOCK_FOLDER_H_

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nexus/base/file_system.h"
#include "nexus/base/unique_fd.h"

namespace nexus::kv {

inline constexpr std::string_view kBlockSuffix = ".nxb";
inline constexpr std::string_view kCorruptSuffix = ".corrupt";

struct BlockFileName {
  std::string key_hex;
  int generation = 0;
};

// "<64 hex digits of the key>-<generation>.nxb"
std::string FileNameOf(const std::string& key_hex, int generation);
// Nothing for any other name.
std::optional<BlockFileName> ParseFileName(std::string_view name);

// max(), so never old, when it can't be read.
std::filesystem::file_time_type WriteTime(const std::string& path);

// Held while the index is opened, so that of two processes that find it damaged
// only one moves it aside. Without it (read-only folder, a holder that hangs)
// the store goes on: the worst outcome is an index that is rebuilt once more.
class FolderLock {
 public:
  FolderLock(const std::string& path, int timeout_ms);

 private:
  UniqueFd fd_;  // closing it unlocks
};

// Which generations of which keys the folder holds. A request asks for about a
// dozen keys before its first token, so the names are kept in memory: as long
// as the folder's own write time stands still, a look-up costs one stat.
// Thread-compatible; `fs` must outlive it.
class BlockNames {
 public:
  BlockNames(FileSystem* fs, std::string dir) : fs_(fs), dir_(std::move(dir)) {}

  // Newest first; empty: none.
  std::vector<int> Generations(const std::string& key_hex);

 private:
  void Refresh();

  FileSystem* fs_;
  std::string dir_;
  // The folder's write time when it was listed; nothing when a change might
  // have gone unseen.
  std::optional<std::filesystem::file_time_type> listed_;
  std::unordered_map<std::string, std::vector<int>> generations_;
};

}  // namespace nexus::kv

#endif  // NEXUS_KV_BLOCK_FOLDER_H_
