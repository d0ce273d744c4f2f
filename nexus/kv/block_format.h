// Constants of the block file format; docs/kv_block_format.md is normative.
//
//   header 64 bytes | section table, 32 bytes each | sections, 64-byte aligned
//
// Everything that is used to compute an address stands in fixed binary fields;
// everything that only people and comparisons read stands in the JSON metadata.
#ifndef NEXUS_KV_BLOCK_FORMAT_H_
#define NEXUS_KV_BLOCK_FORMAT_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace nexus::kv {

// As PNG's: the high bit, CR LF, ^Z and LF show a transfer that took the file
// for text.
inline constexpr std::array<uint8_t, 8> kBlockMagic = {0x89, 'N',  'X',  'B',
                                                       '\r', '\n', 0x1A, '\n'};

// The newest version that this reader knows.
inline constexpr uint32_t kBlockFormatVersion = 3;
// What the writer's files say: version 2 only added a section that older
// readers skip. Rows in fewer bits are what they can't read, so only files that
// hold such rows ask for a reader of version 3.
inline constexpr uint32_t kBlockPlainVersion = 2;
inline constexpr uint32_t kBlockPlainMinReader = 1;
inline constexpr uint32_t kBlockStorageVersion = 3;
// Files older than this are refused, files that ask for a reader newer than
// kBlockFormatVersion too.
inline constexpr uint32_t kBlockOldestReadable = 1;

// A cache line: SIMD loads of a row never straddle two sections, and a section
// can be handed to a device that wants aligned copies.
inline constexpr size_t kBlockAlignBytes = 64;

// Byte offsets of the header's fields. Those up to kHeaderChecksumOffset never
// move in any version, so that every reader can verify the header before it
// judges the version.
inline constexpr size_t kHeaderVersionOffset = 8;
inline constexpr size_t kHeaderMinReaderOffset = 12;
inline constexpr size_t kHeaderBytesOffset = 16;
inline constexpr size_t kHeaderSectionCountOffset = 20;
inline constexpr size_t kHeaderFileBytesOffset = 24;
inline constexpr size_t kHeaderChecksumOffset = 32;
inline constexpr size_t kHeaderKindOffset = 40;
inline constexpr size_t kHeaderTokenCountOffset = 44;
inline constexpr size_t kHeaderLayerCountOffset = 48;
inline constexpr size_t kHeaderPositionOffset = 52;
inline constexpr size_t kHeaderContextCountOffset = 56;
inline constexpr size_t kHeaderGenerationOffset = 60;
inline constexpr size_t kHeaderFixedBytes = 64;

inline constexpr size_t kSectionEntryBytes = 32;
inline constexpr size_t kLayerEntryBytes = 16;
inline constexpr size_t kStorageEntryBytes = 8;
inline constexpr uint32_t kNoLayer = 0xFFFFFFFF;

enum class SectionType : uint32_t {
  kMetadata = 1,     // JSON text
  kLayers = 2,       // kLayerEntryBytes a layer
  kTokens = 3,       // int32 a token
  kKeys = 4,         // of one layer: [token][k_elements], or see kStorage
  kValues = 5,       // of one layer: [token][v_elements], or see kStorage
  kSensitivity = 6,  // float32 a token; absent when there is no profile
  // kStorageEntryBytes a layer: how keys and values are encoded, see
  // block_storage.h. Absent: as the layer's types say. Since version 3.
  kStorage = 7,
  // Of one layer, float32 a token: summed squared deviations of V from its
  // mean. With it a block takes in further samples. Since version 2.
  kValueM2 = 18,
};

// The mean of a block weighs at most this many samples; from there on each new
// one pushes the older ones out exponentially, so that a block follows the
// contexts that occur now. Part of the format: M2 is scaled by it.
inline constexpr int kSampleWeightCap = 32;

// Element types of rows, the values of llm::KvType.
inline constexpr uint16_t kElementF32 = 0;
inline constexpr uint16_t kElementF16 = 1;
inline constexpr uint32_t kLayerFlagSlidingWindow = 1;

// Limits of sanity: far above any real model, far below what makes products of
// them overflow 64 bits.
inline constexpr uint32_t kMaxSections = 4096;
inline constexpr uint32_t kMaxLayers = 1024;
inline constexpr uint32_t kMaxTokens = 1U << 20;
inline constexpr uint32_t kMaxRowElements = 1U << 20;
inline constexpr uint64_t kMaxMetadataBytes = uint64_t{1} << 20;

static_assert(kHeaderGenerationOffset + 4 == kHeaderFixedBytes);
static_assert(kHeaderFixedBytes % kBlockAlignBytes == 0);
static_assert(kMaxSections >= 2 * kMaxLayers + 16);
static_assert(uint64_t{kMaxTokens} * kMaxRowElements * 4 <= uint64_t{1} << 42);

inline constexpr uint64_t AlignUp(uint64_t bytes) {
  return (bytes + kBlockAlignBytes - 1) / kBlockAlignBytes * kBlockAlignBytes;
}

// Little-endian whatever the machine is; compilers turn these into one move.
template <typename T>
inline T LoadLittle(const uint8_t* bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(value | static_cast<T>(T{bytes[i]} << (8 * i)));
  }
  return value;
}

template <typename T>
inline void StoreLittle(T value, uint8_t* bytes) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    bytes[i] = static_cast<uint8_t>((value >> (8 * i)) & 0xFF);
  }
}

}  // namespace nexus::kv

#endif  // NEXUS_KV_BLOCK_FORMAT_H_
