// Sign bits of INT8 rows and their Hamming distances: the first stage of a
// two-stage scan. A row of 384 bytes becomes 48, and a distance costs six xors
// and population counts.
//
// For vectors of one length the share of differing signs grows with their
// angle (exactly pi * share in the mean over random rotations), so near rows
// have small distances; which of those are nearest, the INT8 product decides.
//
// Thread-safe: pure functions.
#ifndef NEXUS_SIMD_SIGN_SCAN_H_
#define NEXUS_SIMD_SIGN_SCAN_H_

#include <cstddef>
#include <cstdint>

namespace nexus::simd {

inline constexpr size_t SignWords(size_t columns) {
  return (columns + 63) / 64;
}

// Bit c % 64 of words[c / 64] is set where row[c] < 0; unused bits are zero.
void PackSigns(const int8_t* row, size_t columns, uint64_t* words);

// distances[r] = bits in which codes[r * words ...] and query differ. At most
// 1,023 words, so that a distance fits.
void SignDistances(const uint64_t* codes, size_t row_count, size_t words,
                   const uint64_t* query, uint16_t* distances);

void SignDistancesScalar(const uint64_t* codes, size_t row_count, size_t words,
                         const uint64_t* query, uint16_t* distances);

}  // namespace nexus::simd

#endif  // NEXUS_SIMD_SIGN_SCAN_H_
