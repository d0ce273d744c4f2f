#include "nexus/kv/block_store.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "nexus/kv/block_value.h"

namespace nexus::kv {
namespace {

constexpr std::string_view kIndexName = "index.sqlite";
constexpr std::string_view kLockName = "store.lock";
// Writing a block takes seconds at worst: a temporary file this old belongs to
// a process that died.
constexpr auto kLeftoverAge = std::chrono::hours(1);
// Damaged files kept for a look; more would only fill the disk.
constexpr size_t kMaxQuarantined = 8;

BlockInfo InfoOf(const std::string& file_name, const KvBlock& block) {
  const BlockMetadata& metadata = block.metadata();
  BlockInfo info;
  info.file_name = file_name;
  info.key_hex = ToHex(metadata.Key().Digest());
  info.generation = metadata.generation;
  info.kind = metadata.kind;
  info.tool_name = metadata.tool_name;
  info.schema_hash = metadata.schema_hash;
  info.recipe = metadata.recipe;
  info.model_sha256 = metadata.fingerprint.model_sha256;
  info.token_count = block.token_count();
  info.context_count = metadata.context_count;
  info.bytes = block.file_bytes();
  return info;
}

}  // namespace

BlockStore::BlockStore(BlockStoreOptions options)
    : options_(std::move(options)),
      fs_(options_.file_system != nullptr ? options_.file_system
                                          : &FileSystem::Default()),
      names_(fs_, options_.dir) {}

BlockStore::~BlockStore() = default;

Result<std::unique_ptr<BlockStore>> BlockStore::Open(
    const BlockStoreOptions& options) {
  if (options.dir.empty()) {
    return InvalidArgumentError("block store: no folder given");
  }
  std::unique_ptr<BlockStore> store(new BlockStore(options));
  if (!store->fs_->Exists(options.dir)) {
    NEXUS_RETURN_IF_ERROR(store->fs_->CreateDirs(options.dir));
  }
  const Result<std::vector<std::string>> names =
      store->fs_->ListDir(options.dir);
  if (!names.ok()) return names.status().WithContext("block store");
  store->Start();
  return store;
}

void BlockStore::Start() {
  const FolderLock folder_lock(PathOf(std::string(kLockName)),
                               options_.busy_timeout_ms);
  const MutexLock lock(mutex_);
  OpenIndex();
  RemoveLeftovers();
  ScanFolder();
}

std::string BlockStore::PathOf(const std::string& file_name) const {
  return options_.dir + "/" + file_name;
}

void BlockStore::OpenIndex() {
  const std::string path = PathOf(std::string(kIndexName));
  Result<std::unique_ptr<BlockIndex>> index =
      BlockIndex::Open(path, options_.busy_timeout_ms);
  const StatusCode code = index.status().code();
  if (code == StatusCode::kCorruption || code == StatusCode::kIncompatible) {
    // SQLite's side files belong to the one that goes.
    static_cast<void>(fs_->Remove(path + "-wal"));
    static_cast<void>(fs_->Remove(path + "-shm"));
    const Status moved = fs_->Rename(
        path, path + (code == StatusCode::kCorruption ? ".damaged" : ".newer"));
    if (moved.ok()) index = BlockIndex::Open(path, options_.busy_timeout_ms);
  }
  if (index.ok()) {
    index_ = *std::move(index);
  } else {
    index_status_ = index.status();
  }
}

void BlockStore::NoteIndexError(const Status& status) {
  index_status_ = status;
  if (status.code() == StatusCode::kCorruption) index_.reset();
}

void BlockStore::RemoveLeftovers() {
  const Result<std::vector<std::string>> names = fs_->ListDir(options_.dir);
  if (!names.ok()) return;
  const auto now = std::filesystem::file_time_type::clock::now();
  size_t quarantined = 0;
  for (const std::string& name : *names) {
    const std::string path = PathOf(name);
    const bool is_temporary =
        name.find(std::string(kBlockSuffix) + ".tmp.") != std::string::npos;
    // A file that is gone by now has the time max(): not old.
    const bool is_old = is_temporary && WriteTime(path) < now - kLeftoverAge;
    const bool is_surplus =
        name.ends_with(kCorruptSuffix) && ++quarantined > kMaxQuarantined;
    if (is_old || is_surplus) static_cast<void>(fs_->Remove(path));
  }
}

void BlockStore::ScanFolder() {
  if (index_ == nullptr) return;
  const Result<std::vector<std::string>> names = fs_->ListDir(options_.dir);
  if (!names.ok()) return;
  Result<std::vector<BlockInfo>> rows = index_->List();
  if (!rows.ok()) {
    NoteIndexError(rows.status());
    return;
  }
  std::unordered_set<std::string> unseen;
  for (const BlockInfo& row : *rows) unseen.insert(row.file_name);
  for (const std::string& name : *names) {
    const std::optional<BlockFileName> parsed = ParseFileName(name);
    if (!parsed || unseen.erase(name) > 0) continue;
    const Result<std::shared_ptr<const KvBlock>> block =
        KvBlock::Open(PathOf(name), {.verify_sections = false});
    // Damaged or newer files stay where they are: Find reports them.
    if (!block.ok()) continue;
    if (ToHex((*block)->key().Digest()) != parsed->key_hex) continue;
    NoteIndexError(index_->Upsert(InfoOf(name, **block)));
    if (index_ == nullptr) return;
  }
  for (const std::string& name : unseen) {
    NoteIndexError(index_->Erase(name));
    if (index_ == nullptr) return;
  }
}

std::vector<std::string> BlockStore::FilesFor(const std::string& key_hex,
                                              std::optional<int> generation) {
  if (generation) {
    std::string name = FileNameOf(key_hex, *generation);
    if (!fs_->Exists(PathOf(name))) return {};
    return {std::move(name)};
  }
  std::vector<std::string> names;
  for (const int each : names_.Generations(key_hex)) {
    names.push_back(FileNameOf(key_hex, each));
  }
  return names;
}

Result<std::shared_ptr<const KvBlock>> BlockStore::OpenFile(
    const std::string& file_name, const BlockKey& key,
    const Fingerprint* expected) {
  std::shared_ptr<const KvBlock> block;
  if (const auto found = open_.find(file_name); found != open_.end()) {
    block = found->second.lock();
  }
  if (block == nullptr) {
    Result<std::shared_ptr<const KvBlock>> opened =
        KvBlock::Open(PathOf(file_name));
    Status status = opened.status();
    if (status.ok()) {
      block = *std::move(opened);
      const bool content_fits =
          key.kind != BlockKind::kSplice ||
          key.content ==
              SpliceContent(block->tokens(), block->metadata().recipe);
      if (block->key() != key || !content_fits) {
        status = CorruptionError("block " + PathOf(file_name) +
                                 ": holds another block than its name says");
      }
    }
    if (status.code() == StatusCode::kCorruption) Quarantine(file_name);
    if (!status.ok()) return status;
  }
  if (expected != nullptr) {
    const std::string difference =
        FirstDifference(*expected, block->metadata().fingerprint);
    if (!difference.empty()) {
      return IncompatibleError("block " + PathOf(file_name) + ": " +
                               difference);
    }
  }
  std::erase_if(open_,
                [](const auto& entry) { return entry.second.expired(); });
  open_[file_name] = block;
  return block;
}

void BlockStore::Quarantine(const std::string& file_name) {
  const std::string path = PathOf(file_name);
  // On a read-only folder it stays, and is reported each time.
  static_cast<void>(fs_->Rename(path, path + std::string(kCorruptSuffix)));
  if (index_ != nullptr) NoteIndexError(index_->Erase(file_name));
}

void BlockStore::Record(const std::string& file_name, const KvBlock& block) {
  if (index_ != nullptr) {
    NoteIndexError(index_->Upsert(InfoOf(file_name, block)));
  }
}

Result<std::shared_ptr<const KvBlock>> BlockStore::Find(
    const BlockKey& key, const BlockFindOptions& options) {
  const std::string key_hex = ToHex(key.Digest());
  const MutexLock lock(mutex_);
  // Another process may put a new generation in place, and drop the one that
  // was listed, before it is opened here: look again.
  constexpr int kAttempts = 3;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const std::vector<std::string> names =
        FilesFor(key_hex, options.generation);
    if (names.empty()) break;
    Result<std::shared_ptr<const KvBlock>> block =
        OpenFirst(names, key, options);
    if (block.status().code() != StatusCode::kNotFound) return block;
  }
  return NotFoundError("block store " + options_.dir + ": no block " + key_hex);
}

Result<std::shared_ptr<const KvBlock>> BlockStore::OpenFirst(
    const std::vector<std::string>& file_names, const BlockKey& key,
    const BlockFindOptions& options) {
  Status first_error;
  for (const std::string& file_name : file_names) {
    const bool was_open = IsPinned(file_name);
    Result<std::shared_ptr<const KvBlock>> block =
        OpenFile(file_name, key, options.expected);
    if (!block.ok()) {
      if (first_error.ok()) first_error = block.status();
      continue;
    }
    // A file that appeared behind the index's back gets its row here.
    if (!was_open) Record(file_name, **block);
    if (index_ != nullptr) NoteIndexError(index_->Touch(file_name));
    return block;
  }
  return first_error;
}

bool BlockStore::Contains(const BlockKey& key) {
  const MutexLock lock(mutex_);
  return !FilesFor(ToHex(key.Digest()), std::nullopt).empty();
}

Result<std::shared_ptr<const KvBlock>> BlockStore::WritePrivate(
    const BlockContents& contents) const {
  const std::string path = TemporaryNameFor(PathOf("private.nxb"));
  NEXUS_RETURN_IF_ERROR(WriteBlockFile(*fs_, path, contents).status());
  auto block = KvBlock::Open(path);
  // A file that can't be unlinked is a leftover, removed at the next start.
  static_cast<void>(fs_->Remove(path));
  return block;
}

Result<std::shared_ptr<const KvBlock>> BlockStore::Put(
    const BlockContents& contents, const BlockPutOptions& options) {
  const BlockKey key = contents.metadata.Key();
  const std::string file_name =
      FileNameOf(ToHex(key.Digest()), contents.metadata.generation);
  const std::string path = PathOf(file_name);
  NEXUS_ASSIGN_OR_RETURN(const uint64_t file_bytes, BlockFileBytes(contents));
  if (file_bytes > options_.max_bytes) {
    return ResourceExhaustedError(
        "block store " + options_.dir + ": a block of " +
        std::to_string(file_bytes) + " bytes is above the limit of " +
        std::to_string(options_.max_bytes) + "; raise the limit");
  }
  {
    const MutexLock lock(mutex_);
    if (fs_->Exists(path)) {
      Result<std::shared_ptr<const KvBlock>> present =
          OpenFile(file_name, key, nullptr);
      if (present.ok() && !options.replace) {
        Record(file_name, **present);
        return present;
      }
      if (present.status().code() == StatusCode::kIncompatible) {
        return present.status().WithContext(
            "the block there is kept; remove the file to write another");
      }
    }
    being_put_.insert(file_name);
  }
  // Not under the lock: an fsync takes long, and other threads find blocks
  // meanwhile.
  const Status written = WriteBlockFile(*fs_, path, contents).status();

  const MutexLock lock(mutex_);
  being_put_.erase(being_put_.find(file_name));
  NEXUS_RETURN_IF_ERROR(written);
  // A block that was replaced is its readers' alone.
  if (options.replace) open_.erase(file_name);
  // Reading it back proves what the disk took.
  NEXUS_ASSIGN_OR_RETURN(std::shared_ptr<const KvBlock> block,
                         OpenFile(file_name, key, nullptr));
  Record(file_name, *block);
  DropOthers(*block, options);
  EvictToLimit(file_name);
  return block;
}

void BlockStore::DropOthers(const KvBlock& block,
                            const BlockPutOptions& options) {
  const std::string key_hex = ToHex(block.key().Digest());
  const int kept = block.metadata().generation;
  for (const int generation : names_.Generations(key_hex)) {
    const bool is_older = generation < kept && options.retire_older;
    if (generation == kept || !(is_older || options.replace)) continue;
    const std::string name = FileNameOf(key_hex, generation);
    // What a newer Nexus has written is not this one's to drop.
    if (KvBlock::Open(PathOf(name), {.verify_sections = false})
            .status()
            .code() == StatusCode::kIncompatible) {
      continue;
    }
    if (index_ != nullptr) {
      NoteIndexError(index_->AddUses(name, FileNameOf(key_hex, kept)));
    }
    // One that can't be removed is found no more, and evicted some day.
    static_cast<void>(UnlinkFile(name));
  }
}

std::vector<BlockInfo> BlockStore::ListOldestFirst() {
  if (index_ != nullptr) {
    Result<std::vector<BlockInfo>> infos = index_->List();
    if (infos.ok()) {
      std::reverse(infos->begin(), infos->end());
      return *std::move(infos);
    }
    NoteIndexError(infos.status());
  }
  // No index, no uses: the order of writing stands in for it.
  std::vector<std::pair<std::filesystem::file_time_type, BlockInfo>> dated;
  const Result<std::vector<std::string>> names = fs_->ListDir(options_.dir);
  if (!names.ok()) return {};
  for (const std::string& name : *names) {
    if (!ParseFileName(name)) continue;
    const Result<std::shared_ptr<const KvBlock>> block =
        KvBlock::Open(PathOf(name), {.verify_sections = false});
    if (block.ok()) {
      dated.emplace_back(WriteTime(PathOf(name)), InfoOf(name, **block));
    }
  }
  std::stable_sort(
      dated.begin(), dated.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<BlockInfo> infos;
  for (auto& [time, info] : dated) infos.push_back(std::move(info));
  return infos;
}

void BlockStore::EvictToLimit(const std::string& keep) {
  // Blocks in use count as well: their files are there.
  uint64_t total = CountBytes();
  if (total <= options_.max_bytes) return;
  std::vector<BlockInfo> infos = ListOldestFirst();
  // Without an index nothing is known of uses: the oldest go first.
  if (index_ != nullptr) {
    const auto value = [](const BlockInfo& info) {
      return LogBlockValue(info.heat, info.token_count, info.bytes);
    };
    std::stable_sort(infos.begin(), infos.end(),
                     [&](const BlockInfo& a, const BlockInfo& b) {
                       return value(a) < value(b);
                     });
  }
  for (const BlockInfo& info : infos) {
    if (total <= options_.max_bytes) return;
    if (info.file_name == keep || IsPinned(info.file_name) ||
        being_put_.contains(info.file_name)) {
      continue;
    }
    if (UnlinkFile(info.file_name).ok()) total -= info.bytes;
  }
}

bool BlockStore::IsPinned(const std::string& file_name) {
  const auto found = open_.find(file_name);
  return found != open_.end() && !found->second.expired();
}

Status BlockStore::UnlinkFile(const std::string& file_name) {
  const Status status = fs_->Remove(PathOf(file_name));
  // Gone already: another process was faster.
  if (!status.ok() && status.code() != StatusCode::kNotFound) return status;
  open_.erase(file_name);
  if (index_ != nullptr) NoteIndexError(index_->Erase(file_name));
  return Status::Ok();
}

Result<std::vector<BlockInfo>> BlockStore::List() {
  const MutexLock lock(mutex_);
  std::vector<BlockInfo> infos = ListOldestFirst();
  std::reverse(infos.begin(), infos.end());
  return infos;
}

Status BlockStore::Remove(const BlockKey& key) {
  const std::string key_hex = ToHex(key.Digest());
  const MutexLock lock(mutex_);
  const std::vector<int> generations = names_.Generations(key_hex);
  if (generations.empty()) {
    return NotFoundError("block store " + options_.dir + ": no block " +
                         key_hex);
  }
  for (const int generation : generations) {
    NEXUS_RETURN_IF_ERROR(UnlinkFile(FileNameOf(key_hex, generation)));
  }
  return Status::Ok();
}

Result<std::string> BlockStore::GetSetting(const std::string& key) {
  const MutexLock lock(mutex_);
  if (index_ == nullptr) return index_status_;
  const Result<std::optional<std::string>> value = index_->GetSetting(key);
  NoteIndexError(value.status());
  if (!value.ok()) return value.status();
  if (!value->has_value()) {
    return NotFoundError("block store " + options_.dir + ": no setting '" +
                         key + "'");
  }
  return **value;
}

Status BlockStore::PutSetting(const std::string& key, const std::string& text) {
  const MutexLock lock(mutex_);
  if (index_ == nullptr) return index_status_;
  Status status = index_->PutSetting(key, text);
  NoteIndexError(status);
  return status;
}

Status BlockStore::index_status() {
  const MutexLock lock(mutex_);
  return index_status_;
}

uint64_t BlockStore::TotalBytes() {
  const MutexLock lock(mutex_);
  return CountBytes();
}

uint64_t BlockStore::CountBytes() {
  if (index_ != nullptr) {
    const Result<uint64_t> total = index_->TotalBytes();
    NoteIndexError(total.status());
    if (total.ok()) return *total;
  }
  uint64_t total = 0;
  for (const BlockInfo& info : ListOldestFirst()) total += info.bytes;
  return total;
}

}  // namespace nexus::kv
