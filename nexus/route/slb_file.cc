// Saving and loading of an Slb. Every offset and size of a file is checked
// against the file's length before it is used.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "nexus/route/slb.h"
#include "nexus/route/slb_format.h"

namespace nexus::route {
namespace {

// Quantisation is symmetric, and the scan relies on it.
constexpr int kNeverWritten = 0x80;

uint64_t AlignUp(uint64_t offset) {
  return (offset + kSlbSectionAlignBytes - 1) / kSlbSectionAlignBytes *
         kSlbSectionAlignBytes;
}

// Offsets are functions of the counts, so a file that says otherwise is
// damaged.
void FillOffsets(SlbFileHeader* header) {
  const uint64_t rows = header->row_count;
  header->keys_offset = sizeof(SlbFileHeader);
  header->scales_offset =
      AlignUp(header->keys_offset + rows * sizeof(Sha256Digest));
  header->rows_offset = AlignUp(header->scales_offset + rows * sizeof(float));
}

uint64_t FileBytes(const SlbFileHeader& header) {
  return header.rows_offset + header.row_count * header.dimension;
}

Status Damaged(const std::string& path, const std::string& what) {
  return CorruptionError("SLB file " + path + ": " + what +
                         "; delete it, it will be made again");
}

// Checks everything that the header alone can tell.
Result<SlbFileHeader> ReadHeader(std::string_view file, const std::string& path,
                                 std::string_view fingerprint) {
  SlbFileHeader header;
  if (file.size() < sizeof(header)) {
    return Damaged(
        path, std::to_string(file.size()) + " bytes, a header alone has 128");
  }
  std::memcpy(&header, file.data(), sizeof(header));
  if (std::memcmp(header.magic, kSlbMagic, sizeof(kSlbMagic)) != 0) {
    return IncompatibleError(path + ": not an SLB file (wrong magic bytes)");
  }
  // Before the checksum: a later version may compute that otherwise.
  if (header.version != kSlbVersion) {
    return IncompatibleError(
        "SLB file " + path + ": version " + std::to_string(header.version) +
        ", this program reads version " + std::to_string(kSlbVersion));
  }
  if (header.header_xxh3 !=
      Xxh3(file.data(), offsetof(SlbFileHeader, header_xxh3))) {
    return Damaged(path, "header checksum doesn't match");
  }
  const Sha256Digest expected = Sha256Of(fingerprint);
  if (std::memcmp(header.fingerprint, expected.data(), expected.size()) != 0) {
    return IncompatibleError("SLB file " + path +
                             ": made by another encoder or text recipe than '" +
                             std::string(fingerprint) + "'");
  }
  if (header.dimension == 0 || header.dimension > kSlbMaxDimension ||
      header.row_count > kSlbMaxRows) {
    return Damaged(path,
                   "impossible size: " + std::to_string(header.row_count) +
                       " rows of " + std::to_string(header.dimension));
  }
  SlbFileHeader laid_out = header;
  FillOffsets(&laid_out);
  if (laid_out.keys_offset != header.keys_offset ||
      laid_out.scales_offset != header.scales_offset ||
      laid_out.rows_offset != header.rows_offset) {
    return Damaged(path, "section offsets don't fit the row count");
  }
  if (file.size() != FileBytes(header)) {
    return Damaged(path, std::to_string(file.size()) + " bytes, expected " +
                             std::to_string(FileBytes(header)));
  }
  return header;
}

}  // namespace

Status Slb::Save(FileSystem& fs, const std::string& path,
                 std::string_view fingerprint) const {
  SlbFileHeader header = {};
  std::memcpy(header.magic, kSlbMagic, sizeof(kSlbMagic));
  header.version = kSlbVersion;
  header.dimension = static_cast<uint32_t>(dimension_);
  header.row_count = scales_.size();
  FillOffsets(&header);
  const Sha256Digest digest = Sha256Of(fingerprint);
  std::memcpy(header.fingerprint, digest.data(), digest.size());

  std::string file(FileBytes(header), '\0');
  char* keys = file.data() + header.keys_offset;
  char* scales = file.data() + header.scales_offset;
  char* rows = file.data() + header.rows_offset;
  const size_t columns = static_cast<size_t>(dimension_);
  const size_t keys_bytes = keys_.size() * sizeof(Sha256Digest);
  const size_t scales_bytes = scales_.size() * sizeof(float);
  if (!scales_.empty()) {
    std::memcpy(keys, keys_.data(), keys_bytes);
    std::memcpy(scales, scales_.data(), scales_bytes);
  }
  for (size_t r = 0; r < scales_.size(); ++r) {
    std::memcpy(rows + r * columns, rows_.get() + r * stride_, columns);
  }
  header.keys_xxh3 = Xxh3(keys, keys_bytes);
  header.scales_xxh3 = Xxh3(scales, scales_bytes);
  header.rows_xxh3 = Xxh3(rows, scales_.size() * columns);
  header.header_xxh3 = Xxh3(&header, offsetof(SlbFileHeader, header_xxh3));
  std::memcpy(file.data(), &header, sizeof(header));
  return WriteFileAtomically(fs, path, file);
}

Result<Slb> Slb::Load(FileSystem& fs, const std::string& path,
                      std::string_view fingerprint) {
  NEXUS_ASSIGN_OR_RETURN(const std::string file, fs.ReadFile(path));
  NEXUS_ASSIGN_OR_RETURN(const SlbFileHeader header,
                         ReadHeader(file, path, fingerprint));
  const size_t count = static_cast<size_t>(header.row_count);
  const size_t columns = header.dimension;
  const char* keys = file.data() + header.keys_offset;
  const char* scales = file.data() + header.scales_offset;
  const char* rows = file.data() + header.rows_offset;
  const struct {
    const char* name;
    const char* data;
    size_t byte_count;
    uint64_t xxh3;
  } sections[] = {
      {"keys", keys, count * sizeof(Sha256Digest), header.keys_xxh3},
      {"scales", scales, count * sizeof(float), header.scales_xxh3},
      {"rows", rows, count * columns, header.rows_xxh3},
  };
  for (const auto& section : sections) {
    if (Xxh3(section.data, section.byte_count) != section.xxh3) {
      return Damaged(path, std::string("checksum of section '") + section.name +
                               "' doesn't match");
    }
  }

  Slb slb(static_cast<int>(columns));
  slb.Reserve(static_cast<int>(count));
  for (size_t r = 0; r < count; ++r) {
    Sha256Digest key;
    float scale = 0;
    std::memcpy(key.data(), keys + r * key.size(), key.size());
    std::memcpy(&scale, scales + r * sizeof(float), sizeof(float));
    // A checksum proves that nobody damaged the file, not that it was sane.
    if (!std::isfinite(scale) || scale < 0) {
      return Damaged(path, "scale of row " + std::to_string(r) +
                               " isn't a finite positive number");
    }
    const char* row = rows + r * columns;
    if (std::memchr(row, kNeverWritten, columns) != nullptr) {
      return Damaged(path, "row " + std::to_string(r) +
                               " holds a byte of -128, which isn't written");
    }
    std::memcpy(slb.AppendRow(key, scale), row, columns);
    slb.PackLastRow();
  }
  return slb;
}

}  // namespace nexus::route
