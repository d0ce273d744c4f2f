// BlockIndex: the SQLite table behind a BlockStore. A cache over the folder: it
// holds nothing about a block that the file doesn't, except when it was used.
//
// WAL, so that readers of one process never wait for a writer of another;
// writers wait up to the busy timeout. synchronous=NORMAL: a power cut may lose
// the last uses, which cost nothing but a slightly worse eviction.
#ifndef NEXUS_KV_BLOCK_INDEX_H_
#define NEXUS_KV_BLOCK_INDEX_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/kv/block_metadata.h"

namespace nexus::kv {

struct BlockInfo {
  std::string file_name;
  std::string key_hex;  // BlockKey::Digest()
  int generation = 0;
  BlockKind kind = BlockKind::kSplice;
  std::string tool_name;
  std::string schema_hash;
  std::string recipe;
  std::string model_sha256;
  int token_count = 0;
  int context_count = 0;
  uint64_t bytes = 0;
  int64_t last_use_unix = 0;  // 0: never since it was written
  int64_t hits = 0;
  double heat = 0;  // see block_value.h
};

// Thread-compatible: BlockStore locks around it.
class BlockIndex {
 public:
  static constexpr int kSchemaVersion = 1;

  // Creates the file when it isn't there. kCorruption: damaged, or not an
  // index; kIncompatible: of a newer version; kIoError: can't be opened or
  // written.
  static Result<std::unique_ptr<BlockIndex>> Open(const std::string& path,
                                                  int busy_timeout_ms);
  ~BlockIndex();
  BlockIndex(const BlockIndex&) = delete;
  BlockIndex& operator=(const BlockIndex&) = delete;

  // Adds or replaces the row of info.file_name; the use count of an existing
  // row is kept. A new row counts as the most recently used.
  Status Upsert(const BlockInfo& info);
  // Counts a use now. A row that isn't there is no error.
  Status Touch(const std::string& file_name);
  Status Erase(const std::string& file_name);
  // Adds the uses of one row to another's, for a block that takes the place of
  // an older one. Rows that aren't there are no error.
  Status AddUses(const std::string& from, const std::string& to);
  // Most recently used first.
  Result<std::vector<BlockInfo>> List();
  Result<uint64_t> TotalBytes();

  Result<std::optional<std::string>> GetSetting(const std::string& key);
  Status PutSetting(const std::string& key, const std::string& text);

 private:
  struct Impl;
  explicit BlockIndex(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace nexus::kv

#endif  // NEXUS_KV_BLOCK_INDEX_H_
