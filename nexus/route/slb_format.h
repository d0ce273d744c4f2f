// Byte layout of an SLB file, little-endian; docs/routing.md is normative.
//
//   header   [0, 128)      SlbFileHeader
//   keys     [keys_offset, + 32 * row_count)    SHA-256 of each embedded text
//   scales   [scales_offset, + 4 * row_count)   float32
//   rows     [rows_offset, + dimension * row_count)  int8, no padding
//
// Sections start at multiples of 64 and follow each other in this order; the
// bytes between them are zero, and the file ends with the last row.
#ifndef NEXUS_ROUTE_SLB_FORMAT_H_
#define NEXUS_ROUTE_SLB_FORMAT_H_

#include <bit>
#include <cstddef>
#include <cstdint>

namespace nexus::route {

static_assert(std::endian::native == std::endian::little,
              "SLB files are read as they lie in memory");

inline constexpr char kSlbMagic[8] = {'N', 'X', 'S', 'L', 'B', '\r', '\n', 0};
inline constexpr uint32_t kSlbVersion = 1;
inline constexpr uint64_t kSlbSectionAlignBytes = 64;
// Bounds that no encoder or registry comes near; they keep products far from
// overflow.
inline constexpr uint32_t kSlbMaxDimension = 65536;
inline constexpr uint64_t kSlbMaxRows = uint64_t{1} << 24;

struct SlbFileHeader {
  char magic[8];
  uint32_t version;
  uint32_t dimension;
  uint64_t row_count;
  uint64_t keys_offset;
  uint64_t scales_offset;
  uint64_t rows_offset;
  uint64_t keys_xxh3;
  uint64_t scales_xxh3;
  uint64_t rows_xxh3;
  uint8_t fingerprint[32];  // SHA-256 of the fingerprint text
  uint8_t reserved[16];     // zero
  uint64_t header_xxh3;     // of the 120 bytes before it
};
static_assert(sizeof(SlbFileHeader) == 128);
static_assert(offsetof(SlbFileHeader, header_xxh3) == 120);

}  // namespace nexus::route

#endif  // NEXUS_ROUTE_SLB_FORMAT_H_
