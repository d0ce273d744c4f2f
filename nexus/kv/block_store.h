// BlockStore: a folder of block files, with an index, a size limit and pins.
//
//   <dir>/<64 hex digits of the key>-<generation>.nxb   one block each
//   <dir>/<...>.nxb.corrupt                             damaged, set aside
//   <dir>/index.sqlite                                  sizes, uses, settings
//   <dir>/store.lock, learn.lock                        see FolderLock
//
// The files are the truth. The index is a cache over them: when it is missing,
// damaged or of a newer version it is moved aside and rebuilt, and when it
// can't be written (read-only folder, full disk) the store goes on without it,
// finding files by name. Any number of processes may share a folder.
#ifndef NEXUS_KV_BLOCK_STORE_H_
#define NEXUS_KV_BLOCK_STORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "nexus/base/file_system.h"
#include "nexus/base/mutex.h"
#include "nexus/base/result.h"
#include "nexus/kv/block_folder.h"
#include "nexus/kv/block_index.h"
#include "nexus/kv/block_reader.h"
#include "nexus/kv/block_writer.h"

namespace nexus::kv {

struct BlockStoreOptions {
  std::string dir;
  // The blocks of the least value (block_value.h) go when a Put brings the
  // files above this.
  uint64_t max_bytes = uint64_t{4} << 30;
  FileSystem* file_system = nullptr;  // FileSystem::Default()
  // How long to wait for another process that writes the index.
  int busy_timeout_ms = 2000;
};

struct BlockFindOptions {
  const Fingerprint* expected = nullptr;  // as in BlockOpenOptions
  // Unset: the newest generation. The bit-stable mode pins one.
  std::optional<int> generation = std::nullopt;
};

struct BlockPutOptions {
  // Writes the block even where a sound one is: other readers of that one keep
  // it, and it stays when the new one can't be written.
  bool replace = false;
  // Drops the older generations once this one is in place: it holds what they
  // held. Whoever has one mapped keeps it.
  bool retire_older = false;
};

// Thread-safe. Blocks handed out may outlive the store.
class BlockStore {
 public:
  // Makes the folder (owner-only). kInvalidArgument without one; kIoError when
  // it is neither there nor can be made. Index trouble is no error: see
  // index_status().
  static Result<std::unique_ptr<BlockStore>> Open(
      const BlockStoreOptions& options);

  ~BlockStore();
  BlockStore(const BlockStore&) = delete;
  BlockStore& operator=(const BlockStore&) = delete;

  // The verified block, mapped. Counts as a use. While the caller holds it,
  // this store doesn't evict it, and finds it again without reading the file.
  // A generation that is damaged, or of a newer Nexus, is passed over for the
  // next older one. kNotFound: compile it. kCorruption: the file was damaged
  // and has been set aside (once: the next Find says kNotFound). kIncompatible:
  // see KvBlock::Open.
  Result<std::shared_ptr<const KvBlock>> Find(
      const BlockKey& key, const BlockFindOptions& options = {});

  // Whether a file for the key is there; looks at names only, counts as no use.
  bool Contains(const BlockKey& key);

  // Writes the block under contents.metadata.Key() and .generation, evicts down
  // to the limit, and returns the block as Find would. A sound block that is
  // already there is kept and returned: two processes that compile the same
  // tool both succeed. kResourceExhausted when the disk is full or the block
  // alone is above max_bytes; kIncompatible when another version of Nexus has
  // written a block there that this one can't read: it stays.
  Result<std::shared_ptr<const KvBlock>> Put(
      const BlockContents& contents, const BlockPutOptions& options = {});

  // Writes the block and hands it out without taking it in: the file is
  // unlinked once it is mapped and read back, so it is the caller's alone, goes
  // with its last reader, and no block of the store makes room for it.
  Result<std::shared_ptr<const KvBlock>> WritePrivate(
      const BlockContents& contents) const;

  // Most recently used first.
  Result<std::vector<BlockInfo>> List();

  // Removes all generations. kNotFound when there is none. Blocks in use stay
  // valid.
  Status Remove(const BlockKey& key);

  // Small texts kept per machine (measurements, calibration). They live in the
  // index only: what is lost with it is measured again. kNotFound when unset.
  Result<std::string> GetSetting(const std::string& key);
  Status PutSetting(const std::string& key, const std::string& text);

  // Why the index is off, or Ok. For `doctor`.
  Status index_status();
  // Bytes of all block files in the folder.
  uint64_t TotalBytes();
  const std::string& dir() const { return options_.dir; }
  uint64_t max_bytes() const { return options_.max_bytes; }
  std::string PathOf(const std::string& file_name) const;

 private:
  explicit BlockStore(BlockStoreOptions options);

  void Start() EXCLUDES(mutex_);
  void OpenIndex() REQUIRES(mutex_);
  // Takes note of how an index call ended; a damaged index is switched off.
  void NoteIndexError(const Status& status) REQUIRES(mutex_);
  void RemoveLeftovers();
  // Rows for files without, and away with rows without a file.
  void ScanFolder() REQUIRES(mutex_);
  // Newest first.
  std::vector<std::string> FilesFor(const std::string& key_hex,
                                    std::optional<int> generation)
      REQUIRES(mutex_);
  // The first of them that opens. kNotFound: none is there (any more).
  Result<std::shared_ptr<const KvBlock>> OpenFirst(
      const std::vector<std::string>& file_names, const BlockKey& key,
      const BlockFindOptions& options) REQUIRES(mutex_);
  Result<std::shared_ptr<const KvBlock>> OpenFile(const std::string& file_name,
                                                  const BlockKey& key,
                                                  const Fingerprint* expected)
      REQUIRES(mutex_);
  void Quarantine(const std::string& file_name) REQUIRES(mutex_);
  void Record(const std::string& file_name, const KvBlock& block)
      REQUIRES(mutex_);
  // Drops the other generations of the block, after a replacement the newer
  // ones too; their uses go over to it.
  void DropOthers(const KvBlock& block, const BlockPutOptions& options)
      REQUIRES(mutex_);
  void EvictToLimit(const std::string& keep) REQUIRES(mutex_);
  Status UnlinkFile(const std::string& file_name) REQUIRES(mutex_);
  bool IsPinned(const std::string& file_name) REQUIRES(mutex_);
  std::vector<BlockInfo> ListOldestFirst() REQUIRES(mutex_);
  uint64_t CountBytes() REQUIRES(mutex_);

  const BlockStoreOptions options_;
  FileSystem* const fs_;

  Mutex mutex_;
  BlockNames names_ GUARDED_BY(mutex_);
  // Null: off, index_status_ says why.
  std::unique_ptr<BlockIndex> index_ GUARDED_BY(mutex_);
  Status index_status_ GUARDED_BY(mutex_);
  // Blocks handed out and perhaps still in use, by file name.
  std::unordered_map<std::string, std::weak_ptr<const KvBlock>> open_
      GUARDED_BY(mutex_);
  // Files between their writing and the end of their Put, once for each thread
  // that is at it: another's Put must not evict them.
  std::multiset<std::string> being_put_ GUARDED_BY(mutex_);
};

}  // namespace nexus::kv

#endif  // NEXUS_KV_BLOCK_STORE_H_
