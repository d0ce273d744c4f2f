// KvBlock: a block file mapped read-only, every byte verified before any row is
// handed out.
//
// Open checks bounds first and dereferences after: header checksum, version,
// section table, then the checksum of each section. A file that fails is never
// used in part.
#ifndef NEXUS_KV_BLOCK_READER_H_
#define NEXUS_KV_BLOCK_READER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nexus/base/check.h"
#include "nexus/base/mapped_file.h"
#include "nexus/base/result.h"
#include "nexus/kv/block_metadata.h"
#include "nexus/kv/block_storage.h"
#include "nexus/llm/kv_access.h"

namespace nexus::kv {

struct BlockOpenOptions {
  // Off only for listings that read nothing but the header and the metadata:
  // whoever uses rows must leave it on.
  bool verify_sections = true;
  // When set, a block of another model, template, layout or engine is refused.
  const Fingerprint* expected = nullptr;
};

// Immutable and thread-safe. Shared: whoever splices from it keeps it alive,
// and a file that is unlinked meanwhile stays mapped.
class KvBlock {
 public:
  // kNotFound; kCorruption with path and offset; kIncompatible for a version
  // that this build can't read ("made by a newer Nexus") or a fingerprint that
  // differs (names the field).
  static Result<std::shared_ptr<const KvBlock>> Open(
      const std::string& path, const BlockOpenOptions& options = {});

  KvBlock(const KvBlock&) = delete;
  KvBlock& operator=(const KvBlock&) = delete;

  const BlockMetadata& metadata() const { return metadata_; }
  BlockKind kind() const { return metadata_.kind; }
  llm::Position position() const { return metadata_.position; }
  BlockKey key() const { return metadata_.Key(); }
  const std::string& path() const { return file_.path(); }
  uint64_t file_bytes() const { return file_.bytes().size(); }
  uint32_t format_version() const { return format_version_; }

  int token_count() const { return static_cast<int>(tokens_.size()); }
  std::span<const llm::Token> tokens() const { return tokens_; }
  std::span<const llm::KvLayerShape> layers() const { return layers_; }
  // One a token, or empty when there is a single sample behind the block.
  std::span<const float> sensitivity() const { return sensitivity_; }
  // One a token: summed squared deviations of V from the stored mean. Empty, of
  // every layer alike, when the file has none.
  std::span<const float> VM2(size_t layer) const {
    return v_m2_.empty() ? std::span<const float>() : v_m2_[layer];
  }

  // How the rows are stored. The writer gives all layers one storage; a file
  // may mix them, and says here what its first layer has.
  BlockStorage storage() const { return storage_.front(); }
  BlockStorage storage(size_t layer) const { return storage_[layer]; }
  // Of all rows of a layer, as they are stored.
  uint64_t KBytes(size_t layer) const;
  uint64_t VBytes(size_t layer) const;

  // Rows as they are mapped, only where storage(layer) is as cached. Those of
  // consecutive tokens lie KStrideBytes (VStrideBytes) apart, with no gap.
  // [token][k_elements] of the layer's type; row 0 is 64-byte aligned.
  const uint8_t* KRow(size_t layer, int token) const {
    NEXUS_DCHECK(storage_[layer].k == RowStorage::kAsCached);
    return keys_[layer] + KStrideBytes(layer) * static_cast<size_t>(token);
  }
  const uint8_t* VRow(size_t layer, int token) const {
    NEXUS_DCHECK(storage_[layer].v == RowStorage::kAsCached);
    return values_[layer] + VStrideBytes(layer) * static_cast<size_t>(token);
  }
  // Of a row in the layer's type, however it is stored.
  size_t KStrideBytes(size_t layer) const { return k_stride_bytes_[layer]; }
  size_t VStrideBytes(size_t layer) const { return v_stride_bytes_[layer]; }

  // Rows [token, token + count) in float32, however they are stored:
  // [count][k_elements], [count][v_elements].
  void ReadK(size_t layer, int token, int count, float* out) const;
  void ReadV(size_t layer, int token, int count, float* out) const;

 private:
  friend class BlockParser;
  KvBlock() = default;

  EncodedShape KShape(size_t layer) const {
    return {storage_[layer].k, tokens_.size(), layers_[layer].k_elements};
  }
  EncodedShape VShape(size_t layer) const {
    return {storage_[layer].v, tokens_.size(), layers_[layer].v_elements};
  }

  MappedFile file_;
  BlockMetadata metadata_;
  uint32_t format_version_ = 0;
  // Views into the mapping (little-endian machines only, see block_reader.cc).
  std::span<const llm::Token> tokens_;
  std::span<const float> sensitivity_;
  std::vector<llm::KvLayerShape> layers_;
  std::vector<BlockStorage> storage_;         // [layer]
  std::vector<const uint8_t*> keys_;          // [layer]
  std::vector<const uint8_t*> values_;        // [layer]
  std::vector<std::span<const float>> v_m2_;  // [layer], or empty
  std::vector<size_t> k_stride_bytes_;
  std::vector<size_t> v_stride_bytes_;
};

}  // namespace nexus::kv

#endif  // NEXUS_KV_BLOCK_READER_H_
