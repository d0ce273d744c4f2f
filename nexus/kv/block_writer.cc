#include "nexus/kv/block_writer.h"

#include <bit>
#include <cstring>
#include <filesystem>
#include <limits>

#include "nexus/base/hash.h"
#include "nexus/kv/block_format.h"
#include "nexus/kv/row_convert.h"

namespace nexus::kv {
namespace {

// Rows are written as they lie in memory.
static_assert(std::endian::native == std::endian::little,
              "a big-endian machine would have to swap rows on both sides");

struct Section {
  SectionType type;
  uint32_t layer;
  const void* data;
  size_t byte_count;
};

uint16_t ElementCode(llm::KvType type) {
  return type == llm::KvType::kF32 ? kElementF32 : kElementF16;
}

Status CheckRows(std::string_view what, size_t layer, uint32_t elements,
                 size_t found, size_t expected) {
  if (elements == 0 || elements > kMaxRowElements) {
    return InvalidArgumentError("block: layer " + std::to_string(layer) + " " +
                                std::string(what) + " rows of " +
                                std::to_string(elements) + " elements");
  }
  if (found == expected) return Status::Ok();
  return InvalidArgumentError("block: layer " + std::to_string(layer) + " " +
                              std::string(what) + " rows hold " +
                              std::to_string(found) + " bytes, expected " +
                              std::to_string(expected));
}

Status Check(const BlockContents& contents) {
  const size_t token_count = contents.tokens.size();
  if (token_count == 0 || token_count > kMaxTokens) {
    return InvalidArgumentError("block: " + std::to_string(token_count) +
                                " tokens, expected 1 to " +
                                std::to_string(kMaxTokens));
  }
  const size_t layer_count = contents.layers.size();
  if (layer_count == 0 || layer_count > kMaxLayers) {
    return InvalidArgumentError("block: " + std::to_string(layer_count) +
                                " layers, expected 1 to " +
                                std::to_string(kMaxLayers));
  }
  if (contents.k.size() != layer_count || contents.v.size() != layer_count) {
    return InvalidArgumentError(
        "block: rows for " + std::to_string(contents.k.size()) + " and " +
        std::to_string(contents.v.size()) + " layers, expected " +
        std::to_string(layer_count));
  }
  llm::KvLayout layout;
  layout.layers.assign(contents.layers.begin(), contents.layers.end());
  for (size_t i = 0; i < layer_count; ++i) {
    const llm::KvLayerShape& shape = contents.layers[i];
    NEXUS_RETURN_IF_ERROR(CheckRows("K", i, shape.k_elements,
                                    contents.k[i].size(),
                                    token_count * layout.RowBytesK(i)));
    NEXUS_RETURN_IF_ERROR(CheckRows("V", i, shape.v_elements,
                                    contents.v[i].size(),
                                    token_count * layout.RowBytesV(i)));
  }
  if (!contents.sensitivity.empty() &&
      contents.sensitivity.size() != token_count) {
    return InvalidArgumentError(
        "block: sensitivity of " + std::to_string(contents.sensitivity.size()) +
        " tokens, block has " + std::to_string(token_count));
  }
  if (!contents.v_m2.empty() && contents.v_m2.size() != layer_count) {
    return InvalidArgumentError(
        "block: squared deviations of " + std::to_string(contents.v_m2.size()) +
        " layers, block has " + std::to_string(layer_count));
  }
  for (const std::vector<float>& m2 : contents.v_m2) {
    if (m2.size() == token_count) continue;
    return InvalidArgumentError(
        "block: squared deviations of " + std::to_string(m2.size()) +
        " tokens, block has " + std::to_string(token_count));
  }
  const BlockMetadata& metadata = contents.metadata;
  if (metadata.generation < 0 || metadata.context_count < 1 ||
      metadata.position < 0 ||
      (metadata.kind == BlockKind::kSplice && metadata.position != 0)) {
    return InvalidArgumentError(
        "block: generation, context count or position out of range");
  }
  const BlockStorage& storage = contents.storage;
  if (metadata.kind == BlockKind::kVariant && !storage.is_as_cached()) {
    return InvalidArgumentError(
        "block: a variant is exact and can't be stored as " +
        BlockStorageName(storage));
  }
  if (storage.v == RowStorage::kQ4) {
    return InvalidArgumentError("block: 4 bits are for keys, not for values");
  }
  return Status::Ok();
}

// Everything of a file but the sections' own bytes.
struct Plan {
  std::string metadata_json;
  std::vector<uint8_t> layer_table;
  std::vector<uint8_t> storage_table;         // empty: as cached
  std::vector<std::vector<uint8_t>> encoded;  // what sections point at
  std::vector<Section> sections;
  std::vector<uint64_t> offsets;  // of each section
  uint64_t header_bytes = 0;
  uint64_t file_bytes = 0;
};

std::vector<uint8_t> EncodeLayers(std::span<const llm::KvLayerShape> layers) {
  std::vector<uint8_t> bytes(layers.size() * kLayerEntryBytes);
  for (size_t i = 0; i < layers.size(); ++i) {
    uint8_t* entry = bytes.data() + i * kLayerEntryBytes;
    StoreLittle(layers[i].k_elements, entry);
    StoreLittle(layers[i].v_elements, entry + 4);
    StoreLittle(ElementCode(layers[i].k_type), entry + 8);
    StoreLittle(ElementCode(layers[i].v_type), entry + 10);
    StoreLittle(layers[i].sliding_window ? kLayerFlagSlidingWindow : 0U,
                entry + 12);
  }
  return bytes;
}

std::vector<uint8_t> EncodeStorage(const BlockContents& contents) {
  if (contents.storage.is_as_cached()) return {};
  std::vector<uint8_t> bytes(contents.layers.size() * kStorageEntryBytes);
  for (size_t i = 0; i < contents.layers.size(); ++i) {
    uint8_t* entry = bytes.data() + i * kStorageEntryBytes;
    StoreLittle(static_cast<uint16_t>(contents.storage.k), entry);
    StoreLittle(static_cast<uint16_t>(contents.storage.v), entry + 2);
    StoreLittle(static_cast<uint32_t>(kStorageGroupTokens), entry + 4);
  }
  return bytes;
}

// A file's size doesn't need its encoded rows.
enum class PlanFor { kSize, kWriting };

// Rows of one layer as their section: where they lie, or encoded.
Status AddRows(const EncodedShape& shape, llm::KvType type, PlanFor purpose,
               const std::vector<uint8_t>& rows, Section section, Plan* plan) {
  if (shape.storage == RowStorage::kAsCached) {
    section.data = rows.data();
    section.byte_count = rows.size();
  } else {
    section.byte_count = shape.byte_count();
  }
  if (shape.storage != RowStorage::kAsCached && purpose == PlanFor::kWriting) {
    std::vector<float> floats(shape.tokens * shape.elements);
    RowsToF32(type, rows.data(), floats.size(), floats.data());
    std::vector<uint8_t>& encoded = plan->encoded.emplace_back();
    encoded.resize(shape.byte_count());
    const Status status = EncodeRows(shape, floats.data(), encoded.data());
    if (!status.ok()) {
      return status.WithContext("block: layer " +
                                std::to_string(section.layer));
    }
    section.data = encoded.data();
  }
  plan->sections.push_back(section);
  return Status::Ok();
}

Status MakePlan(const BlockContents& contents, PlanFor purpose, Plan* plan) {
  NEXUS_RETURN_IF_ERROR(Check(contents));
  plan->metadata_json = EncodeMetadataJson(contents.metadata);
  if (plan->metadata_json.size() > kMaxMetadataBytes) {
    return InvalidArgumentError(
        "block: metadata of " + std::to_string(plan->metadata_json.size()) +
        " bytes, at most " + std::to_string(kMaxMetadataBytes));
  }
  plan->layer_table = EncodeLayers(contents.layers);
  plan->sections = {
      {SectionType::kMetadata, kNoLayer, plan->metadata_json.data(),
       plan->metadata_json.size()},
      {SectionType::kLayers, kNoLayer, plan->layer_table.data(),
       plan->layer_table.size()},
      {SectionType::kTokens, kNoLayer, contents.tokens.data(),
       contents.tokens.size_bytes()},
  };
  plan->storage_table = EncodeStorage(contents);
  if (!plan->storage_table.empty()) {
    plan->sections.push_back({SectionType::kStorage, kNoLayer,
                              plan->storage_table.data(),
                              plan->storage_table.size()});
  }
  if (!contents.sensitivity.empty()) {
    plan->sections.push_back({SectionType::kSensitivity, kNoLayer,
                              contents.sensitivity.data(),
                              contents.sensitivity.size_bytes()});
  }
  for (size_t i = 0; i < contents.layers.size(); ++i) {
    const auto layer = static_cast<uint32_t>(i);
    const llm::KvLayerShape& shape = contents.layers[i];
    const size_t tokens = contents.tokens.size();
    NEXUS_RETURN_IF_ERROR(AddRows(
        {contents.storage.k, tokens, shape.k_elements}, shape.k_type, purpose,
        contents.k[i], {SectionType::kKeys, layer, nullptr, 0}, plan));
    NEXUS_RETURN_IF_ERROR(AddRows(
        {contents.storage.v, tokens, shape.v_elements}, shape.v_type, purpose,
        contents.v[i], {SectionType::kValues, layer, nullptr, 0}, plan));
    if (contents.v_m2.empty()) continue;
    plan->sections.push_back({SectionType::kValueM2, layer,
                              contents.v_m2[i].data(),
                              contents.v_m2[i].size() * sizeof(float)});
  }
  plan->header_bytes =
      AlignUp(kHeaderFixedBytes + kSectionEntryBytes * plan->sections.size());
  uint64_t offset = plan->header_bytes;
  for (const Section& section : plan->sections) {
    plan->offsets.push_back(offset);
    offset = AlignUp(offset + section.byte_count);
  }
  plan->file_bytes = offset;
  return Status::Ok();
}

std::vector<uint8_t> EncodeHeader(const BlockContents& contents,
                                  const Plan& plan) {
  const BlockMetadata& metadata = contents.metadata;
  std::vector<uint8_t> header(plan.header_bytes);
  uint8_t* out = header.data();
  std::memcpy(out, kBlockMagic.data(), kBlockMagic.size());
  const bool is_plain = contents.storage.is_as_cached();
  StoreLittle(is_plain ? kBlockPlainVersion : kBlockStorageVersion,
              out + kHeaderVersionOffset);
  StoreLittle(is_plain ? kBlockPlainMinReader : kBlockStorageVersion,
              out + kHeaderMinReaderOffset);
  StoreLittle(static_cast<uint32_t>(plan.header_bytes),
              out + kHeaderBytesOffset);
  StoreLittle(static_cast<uint32_t>(plan.sections.size()),
              out + kHeaderSectionCountOffset);
  StoreLittle(plan.file_bytes, out + kHeaderFileBytesOffset);
  StoreLittle(static_cast<uint32_t>(metadata.kind), out + kHeaderKindOffset);
  StoreLittle(static_cast<uint32_t>(contents.tokens.size()),
              out + kHeaderTokenCountOffset);
  StoreLittle(static_cast<uint32_t>(contents.layers.size()),
              out + kHeaderLayerCountOffset);
  StoreLittle(static_cast<uint32_t>(metadata.position),
              out + kHeaderPositionOffset);
  StoreLittle(static_cast<uint32_t>(metadata.context_count),
              out + kHeaderContextCountOffset);
  StoreLittle(static_cast<uint32_t>(metadata.generation),
              out + kHeaderGenerationOffset);
  for (size_t i = 0; i < plan.sections.size(); ++i) {
    const Section& section = plan.sections[i];
    uint8_t* entry = out + kHeaderFixedBytes + kSectionEntryBytes * i;
    StoreLittle(static_cast<uint32_t>(section.type), entry);
    StoreLittle(section.layer, entry + 4);
    StoreLittle(plan.offsets[i], entry + 8);
    StoreLittle(uint64_t{section.byte_count}, entry + 16);
    StoreLittle(Xxh3(section.data, section.byte_count), entry + 24);
  }
  // Over the header with its own field still zero.
  StoreLittle(Xxh3(header.data(), header.size()), out + kHeaderChecksumOffset);
  return header;
}

Status WriteTo(FileSystem& fs, const std::string& path,
               const BlockContents& contents, const Plan& plan) {
  static constexpr uint8_t kZeros[kBlockAlignBytes] = {};
  NEXUS_ASSIGN_OR_RETURN(const auto file, fs.NewWritableFile(path));
  const std::vector<uint8_t> header = EncodeHeader(contents, plan);
  NEXUS_RETURN_IF_ERROR(file->Append(header.data(), header.size()));
  for (const Section& section : plan.sections) {
    NEXUS_RETURN_IF_ERROR(file->Append(section.data, section.byte_count));
    const uint64_t padding = AlignUp(section.byte_count) - section.byte_count;
    if (padding > 0) NEXUS_RETURN_IF_ERROR(file->Append(kZeros, padding));
  }
  NEXUS_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

}  // namespace

Result<uint64_t> WriteBlockFile(FileSystem& fs, const std::string& path,
                                const BlockContents& contents) {
  Plan plan;
  NEXUS_RETURN_IF_ERROR(MakePlan(contents, PlanFor::kWriting, &plan));
  const std::string temporary = TemporaryNameFor(path);
  Status status = WriteTo(fs, temporary, contents, plan);
  if (status.ok()) status = fs.Rename(temporary, path);
  if (!status.ok()) {
    // The first error is the one to report.
    static_cast<void>(fs.Remove(temporary));
    return status;
  }
  const std::string parent = std::filesystem::path(path).parent_path().string();
  status = fs.SyncDir(parent.empty() ? "." : parent);
  if (!status.ok()) {
    // Whole, but perhaps gone after a power cut: the caller was promised
    // neither.
    static_cast<void>(fs.Remove(path));
    return status;
  }
  return plan.file_bytes;
}

Result<uint64_t> BlockFileBytes(const BlockContents& contents) {
  Plan plan;
  NEXUS_RETURN_IF_ERROR(MakePlan(contents, PlanFor::kSize, &plan));
  return plan.file_bytes;
}

}  // namespace nexus::kv
