#include "nexus/kv/block_reader.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "nexus/base/hash.h"
#include "nexus/kv/block_format.h"
#include "nexus/kv/row_convert.h"

namespace nexus::kv {

// Rows, tokens and the profile are used where they are mapped.
static_assert(std::endian::native == std::endian::little,
              "a big-endian machine would have to swap rows on both sides");

// Reads one file. Every number from it is compared before it is used as an
// address, as `size - offset >= need`, so that no sum can wrap.
class BlockParser {
 public:
  BlockParser(KvBlock* block, const BlockOpenOptions& options)
      : block_(block),
        options_(options),
        path_(block->file_.path()),
        bytes_(block->file_.bytes()) {}

  Status Parse() {
    NEXUS_RETURN_IF_ERROR(CheckHeader());
    NEXUS_RETURN_IF_ERROR(CheckVersion());
    NEXUS_RETURN_IF_ERROR(ReadCounts());
    NEXUS_RETURN_IF_ERROR(ReadSectionTable());
    NEXUS_RETURN_IF_ERROR(VerifySections());
    NEXUS_RETURN_IF_ERROR(ReadMetadata());
    NEXUS_RETURN_IF_ERROR(ReadLayers());
    NEXUS_RETURN_IF_ERROR(ReadStorage());
    NEXUS_RETURN_IF_ERROR(ReadTokens());
    NEXUS_RETURN_IF_ERROR(ReadRows());
    return ReadM2();
  }

 private:
  struct Section {
    uint32_t type = 0;
    uint32_t layer = 0;
    uint64_t offset = 0;
    uint64_t byte_count = 0;
    uint64_t checksum = 0;
  };

  Status Damaged(uint64_t offset, const std::string& what) const {
    return CorruptionError("block " + path_ + ": offset " +
                           std::to_string(offset) + ": " + what +
                           "; compile the tool again");
  }

  uint32_t Field(size_t offset) const {
    return LoadLittle<uint32_t>(bytes_.data() + offset);
  }

  // Magic, extent and checksum of the header, which stand at the same place in
  // every version.
  Status CheckHeader() {
    if (bytes_.size() < kHeaderFixedBytes) {
      return Damaged(bytes_.size(), "file ends within the header");
    }
    if (!std::equal(kBlockMagic.begin(), kBlockMagic.end(), bytes_.begin())) {
      return Damaged(0, "not a Nexus block file");
    }
    header_bytes_ = Field(kHeaderBytesOffset);
    const uint64_t longest =
        AlignUp(kHeaderFixedBytes + kSectionEntryBytes * kMaxSections);
    if (header_bytes_ < kHeaderFixedBytes || header_bytes_ > longest ||
        header_bytes_ % kBlockAlignBytes != 0) {
      return Damaged(kHeaderBytesOffset,
                     "header of " + std::to_string(header_bytes_) + " bytes");
    }
    if (bytes_.size() < header_bytes_) {
      return Damaged(bytes_.size(), "file ends within the header");
    }
    const uint8_t* begin = bytes_.data();
    std::vector<uint8_t> header(begin, begin + header_bytes_);
    std::fill_n(header.begin() + kHeaderChecksumOffset, sizeof(uint64_t),
                uint8_t{0});
    if (Xxh3(header.data(), header.size()) !=
        LoadLittle<uint64_t>(begin + kHeaderChecksumOffset)) {
      return Damaged(kHeaderChecksumOffset, "header checksum differs");
    }
    const auto file_bytes =
        LoadLittle<uint64_t>(begin + kHeaderFileBytesOffset);
    if (file_bytes != bytes_.size()) {
      return Damaged(std::min<uint64_t>(file_bytes, bytes_.size()),
                     "file of " + std::to_string(bytes_.size()) +
                         " bytes, header says " + std::to_string(file_bytes));
    }
    return Status::Ok();
  }

  Status CheckVersion() {
    const uint32_t version = Field(kHeaderVersionOffset);
    const uint32_t min_reader = Field(kHeaderMinReaderOffset);
    if (min_reader > kBlockFormatVersion) {
      return IncompatibleError(
          "block " + path_ + ": made by a newer Nexus: format " +
          std::to_string(version) + " needs a reader of format " +
          std::to_string(min_reader) + ", this one reads up to " +
          std::to_string(kBlockFormatVersion));
    }
    if (version < kBlockOldestReadable) {
      return IncompatibleError(
          "block " + path_ + ": format " + std::to_string(version) +
          " is no longer read, the oldest is " +
          std::to_string(kBlockOldestReadable) + "; compile the tool again");
    }
    block_->format_version_ = version;
    return Status::Ok();
  }

  Status ReadCounts() {
    const uint32_t kind = Field(kHeaderKindOffset);
    if (kind != static_cast<uint32_t>(BlockKind::kSplice) &&
        kind != static_cast<uint32_t>(BlockKind::kVariant)) {
      return Damaged(kHeaderKindOffset, "unknown kind " + std::to_string(kind));
    }
    token_count_ = Field(kHeaderTokenCountOffset);
    if (token_count_ == 0 || token_count_ > kMaxTokens) {
      return Damaged(kHeaderTokenCountOffset,
                     std::to_string(token_count_) + " tokens");
    }
    layer_count_ = Field(kHeaderLayerCountOffset);
    if (layer_count_ == 0 || layer_count_ > kMaxLayers) {
      return Damaged(kHeaderLayerCountOffset,
                     std::to_string(layer_count_) + " layers");
    }
    const uint32_t position = Field(kHeaderPositionOffset);
    const uint32_t contexts = Field(kHeaderContextCountOffset);
    const uint32_t generation = Field(kHeaderGenerationOffset);
    constexpr uint32_t kMaxInt = 0x7FFFFFFF;
    if (position > kMaxInt || contexts > kMaxInt || generation > kMaxInt ||
        contexts == 0) {
      return Damaged(kHeaderPositionOffset,
                     "position, context count or generation out of range");
    }
    header_metadata_.kind = static_cast<BlockKind>(kind);
    header_metadata_.position = static_cast<llm::Position>(position);
    header_metadata_.context_count = static_cast<int>(contexts);
    header_metadata_.generation = static_cast<int>(generation);
    if (header_metadata_.kind == BlockKind::kSplice && position != 0) {
      return Damaged(kHeaderPositionOffset, "splice block with a position");
    }
    return Status::Ok();
  }

  // Sections follow each other with nothing but zero padding between them, so
  // that each byte of the file is covered by exactly one check.
  Status ReadSectionTable() {
    const uint32_t count = Field(kHeaderSectionCountOffset);
    if (count > kMaxSections ||
        AlignUp(kHeaderFixedBytes + uint64_t{kSectionEntryBytes} * count) !=
            header_bytes_) {
      return Damaged(kHeaderSectionCountOffset,
                     std::to_string(count) + " sections do not fit the header");
    }
    uint64_t end = header_bytes_;
    for (uint32_t i = 0; i < count; ++i) {
      const size_t at = kHeaderFixedBytes + size_t{kSectionEntryBytes} * i;
      const uint8_t* entry = bytes_.data() + at;
      Section section;
      section.type = LoadLittle<uint32_t>(entry);
      section.layer = LoadLittle<uint32_t>(entry + 4);
      section.offset = LoadLittle<uint64_t>(entry + 8);
      section.byte_count = LoadLittle<uint64_t>(entry + 16);
      section.checksum = LoadLittle<uint64_t>(entry + 24);
      // end <= size holds here, and both are multiples of the alignment.
      if (section.offset != end) {
        return Damaged(at, "section " + std::to_string(i) + " starts at " +
                               std::to_string(section.offset) + ", expected " +
                               std::to_string(end));
      }
      if (bytes_.size() - section.offset < section.byte_count ||
          bytes_.size() - section.offset < AlignUp(section.byte_count)) {
        return Damaged(at, "section " + std::to_string(i) + " of " +
                               std::to_string(section.byte_count) +
                               " bytes reaches past the end of the file");
      }
      end += AlignUp(section.byte_count);
      sections_.push_back(section);
    }
    if (end != bytes_.size()) {
      return Damaged(end, std::to_string(bytes_.size() - end) +
                              " bytes belong to no section");
    }
    return Status::Ok();
  }

  static bool IsSmall(const Section& section) {
    return section.type == static_cast<uint32_t>(SectionType::kMetadata) ||
           section.type == static_cast<uint32_t>(SectionType::kLayers) ||
           section.type == static_cast<uint32_t>(SectionType::kStorage) ||
           section.type == static_cast<uint32_t>(SectionType::kTokens);
  }

  Status VerifySections() {
    for (const Section& section : sections_) {
      // What a listing shows is verified even there.
      if (!options_.verify_sections && !IsSmall(section)) continue;
      const uint8_t* data = bytes_.data() + section.offset;
      if (Xxh3(data, section.byte_count) != section.checksum) {
        return Damaged(section.offset, "checksum of section type " +
                                           std::to_string(section.type) +
                                           " differs");
      }
      const uint64_t padded = AlignUp(section.byte_count);
      if (std::any_of(data + section.byte_count, data + padded,
                      [](uint8_t byte) { return byte != 0; })) {
        return Damaged(section.offset + section.byte_count,
                       "padding is not zero");
      }
    }
    const uint8_t* table_end = bytes_.data() + kHeaderFixedBytes +
                               kSectionEntryBytes * sections_.size();
    if (std::any_of(table_end, bytes_.data() + header_bytes_,
                    [](uint8_t byte) { return byte != 0; })) {
      return Damaged(kHeaderFixedBytes, "header padding is not zero");
    }
    return Status::Ok();
  }

  // The one section of a type and layer. Types that this version doesn't know
  // were verified and are left alone.
  Result<Section> Find(SectionType type, uint32_t layer) const {
    const Section* found = nullptr;
    for (const Section& section : sections_) {
      if (section.type != static_cast<uint32_t>(type) ||
          section.layer != layer) {
        continue;
      }
      if (found != nullptr) {
        return Damaged(section.offset, "second section of type " +
                                           std::to_string(section.type));
      }
      found = &section;
    }
    if (found == nullptr) {
      return Damaged(
          kHeaderSectionCountOffset,
          "no section of type " + std::to_string(static_cast<uint32_t>(type)) +
              (layer == kNoLayer ? std::string()
                                 : " for layer " + std::to_string(layer)));
    }
    return *found;
  }

  Result<Section> FindSized(SectionType type, uint32_t layer,
                            uint64_t byte_count) const {
    NEXUS_ASSIGN_OR_RETURN(const Section section, Find(type, layer));
    if (section.byte_count != byte_count) {
      return Damaged(section.offset,
                     "section type " + std::to_string(section.type) + " has " +
                         std::to_string(section.byte_count) +
                         " bytes, expected " + std::to_string(byte_count));
    }
    return section;
  }

  Status ReadMetadata() {
    NEXUS_ASSIGN_OR_RETURN(const Section section,
                           Find(SectionType::kMetadata, kNoLayer));
    if (section.byte_count > kMaxMetadataBytes) {
      return Damaged(
          section.offset,
          "metadata of " + std::to_string(section.byte_count) + " bytes");
    }
    const std::string_view json(
        reinterpret_cast<const char*>(bytes_.data() + section.offset),
        section.byte_count);
    NEXUS_ASSIGN_OR_RETURN(BlockMetadata metadata,
                           DecodeMetadataJson(json, "block " + path_));
    metadata.kind = header_metadata_.kind;
    metadata.generation = header_metadata_.generation;
    metadata.context_count = header_metadata_.context_count;
    metadata.position = header_metadata_.position;
    if (options_.expected != nullptr) {
      const std::string difference =
          FirstDifference(*options_.expected, metadata.fingerprint);
      if (!difference.empty()) {
        return IncompatibleError("block " + path_ + ": " + difference +
                                 "; compile the tool for this model");
      }
    }
    block_->metadata_ = std::move(metadata);
    return Status::Ok();
  }

  Result<llm::KvType> ElementType(uint64_t offset) const {
    const auto code = LoadLittle<uint16_t>(bytes_.data() + offset);
    if (code == kElementF16) return llm::KvType::kF16;
    if (code == kElementF32) return llm::KvType::kF32;
    return Damaged(offset, "unknown element type " + std::to_string(code));
  }

  Status ReadLayers() {
    NEXUS_ASSIGN_OR_RETURN(
        const Section section,
        FindSized(SectionType::kLayers, kNoLayer,
                  uint64_t{layer_count_} * kLayerEntryBytes));
    for (uint32_t i = 0; i < layer_count_; ++i) {
      const uint64_t at = section.offset + uint64_t{kLayerEntryBytes} * i;
      llm::KvLayerShape shape;
      shape.k_elements = Field(at);
      shape.v_elements = Field(at + 4);
      NEXUS_ASSIGN_OR_RETURN(shape.k_type, ElementType(at + 8));
      NEXUS_ASSIGN_OR_RETURN(shape.v_type, ElementType(at + 10));
      const uint32_t flags = Field(at + 12);
      shape.sliding_window = (flags & kLayerFlagSlidingWindow) != 0;
      if (shape.k_elements == 0 || shape.k_elements > kMaxRowElements ||
          shape.v_elements == 0 || shape.v_elements > kMaxRowElements) {
        return Damaged(at, "layer " + std::to_string(i) + " has rows of " +
                               std::to_string(shape.k_elements) + " and " +
                               std::to_string(shape.v_elements) + " elements");
      }
      block_->layers_.push_back(shape);
    }
    return Status::Ok();
  }

  Result<RowStorage> Storage(uint64_t offset, RowStorage last) const {
    const auto code = LoadLittle<uint16_t>(bytes_.data() + offset);
    if (code <= static_cast<uint16_t>(last)) {
      return static_cast<RowStorage>(code);
    }
    return Damaged(offset, "unknown storage of rows " + std::to_string(code));
  }

  Status ReadStorage() {
    block_->storage_.resize(layer_count_);
    if (!Has(SectionType::kStorage)) return Status::Ok();
    NEXUS_ASSIGN_OR_RETURN(
        const Section section,
        FindSized(SectionType::kStorage, kNoLayer,
                  uint64_t{layer_count_} * kStorageEntryBytes));
    // An older reader would take the encoded rows for the layer's own types.
    if (Field(kHeaderMinReaderOffset) < kBlockStorageVersion) {
      return Damaged(kHeaderMinReaderOffset,
                     "rows in fewer bits, but the file says that a reader of "
                     "format " +
                         std::to_string(Field(kHeaderMinReaderOffset)) +
                         " will do, expected " +
                         std::to_string(kBlockStorageVersion));
    }
    for (uint32_t i = 0; i < layer_count_; ++i) {
      const uint64_t at = section.offset + uint64_t{kStorageEntryBytes} * i;
      BlockStorage& storage = block_->storage_[i];
      NEXUS_ASSIGN_OR_RETURN(storage.k, Storage(at, RowStorage::kQ4));
      NEXUS_ASSIGN_OR_RETURN(storage.v, Storage(at + 2, RowStorage::kQ8));
      if (Field(at + 4) != kStorageGroupTokens) {
        return Damaged(at + 4, "groups of " + std::to_string(Field(at + 4)) +
                                   " tokens, expected " +
                                   std::to_string(kStorageGroupTokens));
      }
      if (header_metadata_.kind == BlockKind::kVariant &&
          !storage.is_as_cached()) {
        return Damaged(at, "a variant's rows in fewer bits");
      }
    }
    return Status::Ok();
  }

  Status ReadTokens() {
    NEXUS_ASSIGN_OR_RETURN(const Section section,
                           FindSized(SectionType::kTokens, kNoLayer,
                                     uint64_t{token_count_} * sizeof(int32_t)));
    block_->tokens_ = {
        reinterpret_cast<const int32_t*>(bytes_.data() + section.offset),
        token_count_};
    if (!Has(SectionType::kSensitivity)) return Status::Ok();
    NEXUS_ASSIGN_OR_RETURN(block_->sensitivity_,
                           PerToken(SectionType::kSensitivity, kNoLayer));
    return Status::Ok();
  }

  // All layers or none.
  Status ReadM2() {
    if (!Has(SectionType::kValueM2)) return Status::Ok();
    for (uint32_t i = 0; i < layer_count_; ++i) {
      NEXUS_ASSIGN_OR_RETURN(const std::span<const float> m2,
                             PerToken(SectionType::kValueM2, i));
      block_->v_m2_.push_back(m2);
    }
    return Status::Ok();
  }

  bool Has(SectionType type) const {
    return std::any_of(sections_.begin(), sections_.end(),
                       [type](const Section& section) {
                         return section.type == static_cast<uint32_t>(type);
                       });
  }

  // One float32 a token, finite and not negative: what ranks tokens must order
  // them, and an infinity would stay in every sum from here on.
  Result<std::span<const float>> PerToken(SectionType type,
                                          uint32_t layer) const {
    NEXUS_ASSIGN_OR_RETURN(
        const Section section,
        FindSized(type, layer, uint64_t{token_count_} * sizeof(float)));
    const std::span<const float> values = {
        reinterpret_cast<const float*>(bytes_.data() + section.offset),
        token_count_};
    if (!options_.verify_sections) return values;
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isfinite(values[i]) && values[i] >= 0) continue;
      return Damaged(section.offset + i * sizeof(float),
                     "section type " + std::to_string(section.type) +
                         " holds a number that is negative or not finite");
    }
    return values;
  }

  // The limits of tokens and elements keep this below 2^43.
  static uint64_t RowBytes(const EncodedShape& shape, uint64_t stride) {
    return shape.storage == RowStorage::kAsCached ? stride * shape.tokens
                                                  : shape.byte_count();
  }

  // A scale that is no number would put one into the cache that spreads to
  // every token behind it.
  Status CheckScales(const EncodedShape& shape, const Section& section) const {
    if (shape.storage == RowStorage::kAsCached || !options_.verify_sections) {
      return Status::Ok();
    }
    const std::optional<size_t> bad =
        FindBadScale(shape, bytes_.data() + section.offset);
    if (!bad.has_value()) return Status::Ok();
    return Damaged(section.offset + *bad,
                   "section type " + std::to_string(section.type) +
                       " holds a scale or minimum that makes no float16");
  }

  Status ReadRows() {
    llm::KvLayout layout;
    layout.layers = block_->layers_;
    for (uint32_t i = 0; i < layer_count_; ++i) {
      const uint64_t k_stride = layout.RowBytesK(i);
      const uint64_t v_stride = layout.RowBytesV(i);
      const EncodedShape k_shape = block_->KShape(i);
      const EncodedShape v_shape = block_->VShape(i);
      NEXUS_ASSIGN_OR_RETURN(
          const Section keys,
          FindSized(SectionType::kKeys, i, RowBytes(k_shape, k_stride)));
      NEXUS_ASSIGN_OR_RETURN(
          const Section values,
          FindSized(SectionType::kValues, i, RowBytes(v_shape, v_stride)));
      NEXUS_RETURN_IF_ERROR(CheckScales(k_shape, keys));
      NEXUS_RETURN_IF_ERROR(CheckScales(v_shape, values));
      block_->keys_.push_back(bytes_.data() + keys.offset);
      block_->values_.push_back(bytes_.data() + values.offset);
      block_->k_stride_bytes_.push_back(k_stride);
      block_->v_stride_bytes_.push_back(v_stride);
    }
    return Status::Ok();
  }

  KvBlock* block_;
  const BlockOpenOptions& options_;
  const std::string path_;
  const std::span<const uint8_t> bytes_;
  uint64_t header_bytes_ = 0;
  uint32_t token_count_ = 0;
  uint32_t layer_count_ = 0;
  BlockMetadata header_metadata_;
  std::vector<Section> sections_;
};

Result<std::shared_ptr<const KvBlock>> KvBlock::Open(
    const std::string& path, const BlockOpenOptions& options) {
  NEXUS_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  // Not make_shared: the constructor is private.
  std::shared_ptr<KvBlock> block(new KvBlock());
  block->file_ = std::move(file);
  NEXUS_RETURN_IF_ERROR(BlockParser(block.get(), options).Parse());
  return std::shared_ptr<const KvBlock>(std::move(block));
}

uint64_t KvBlock::KBytes(size_t layer) const {
  return storage_[layer].k == RowStorage::kAsCached
             ? uint64_t{k_stride_bytes_[layer]} * tokens_.size()
             : KShape(layer).byte_count();
}

uint64_t KvBlock::VBytes(size_t layer) const {
  return storage_[layer].v == RowStorage::kAsCached
             ? uint64_t{v_stride_bytes_[layer]} * tokens_.size()
             : VShape(layer).byte_count();
}

void KvBlock::ReadK(size_t layer, int token, int count, float* out) const {
  const auto rows = static_cast<size_t>(count);
  const EncodedShape shape = KShape(layer);
  if (shape.storage == RowStorage::kAsCached) {
    RowsToF32(layers_[layer].k_type, KRow(layer, token), rows * shape.elements,
              out);
  } else {
    DecodeRows(shape, keys_[layer], static_cast<size_t>(token), rows, out);
  }
}

void KvBlock::ReadV(size_t layer, int token, int count, float* out) const {
  const auto rows = static_cast<size_t>(count);
  const EncodedShape shape = VShape(layer);
  if (shape.storage == RowStorage::kAsCached) {
    RowsToF32(layers_[layer].v_type, VRow(layer, token), rows * shape.elements,
              out);
  } else {
    DecodeRows(shape, values_[layer], static_cast<size_t>(token), rows, out);
  }
}

}  // namespace nexus::kv
