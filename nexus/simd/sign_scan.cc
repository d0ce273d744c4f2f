// The loop is plain: every target from SSE4 on has the POPCNT instruction (and
// AVX3_DL a vector form that compilers find), which at 384 columns is as fast
// as the rows come out of the cache. Counts of words that embeddings have are
// compile-time constants, which unrolls the inner loop and keeps the query in
// registers.
#include "nexus/simd/sign_scan.h"

#include <bit>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nexus/simd/sign_scan.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace nexus::simd {
namespace HWY_NAMESPACE {

template <size_t kWords>  // zero: `words` decides
HWY_INLINE void Distances(const uint64_t* HWY_RESTRICT codes, size_t row_count,
                          size_t words, const uint64_t* HWY_RESTRICT query,
                          uint16_t* HWY_RESTRICT distances) {
  const size_t count = kWords == 0 ? words : kWords;
  for (size_t r = 0; r < row_count; ++r) {
    uint64_t sum = 0;
    for (size_t w = 0; w < count; ++w) {
      sum += static_cast<uint64_t>(
          __builtin_popcountll(codes[r * count + w] ^ query[w]));
    }
    distances[r] = static_cast<uint16_t>(sum);
  }
}

void SignDistancesTarget(const uint64_t* codes, size_t row_count, size_t words,
                         const uint64_t* query, uint16_t* distances) {
  switch (words) {
    case 6:  // 384: MiniLM, bge-small, e5-small
      return Distances<6>(codes, row_count, words, query, distances);
    case 12:  // 768: nomic-embed-text, bge-base, gte-base
      return Distances<12>(codes, row_count, words, query, distances);
    default:
      return Distances<0>(codes, row_count, words, query, distances);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace nexus::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace nexus::simd {

HWY_EXPORT(SignDistancesTarget);

void PackSigns(const int8_t* row, size_t columns, uint64_t* words) {
  for (size_t w = 0; w < SignWords(columns); ++w) words[w] = 0;
  for (size_t c = 0; c < columns; ++c) {
    words[c / 64] |= uint64_t{row[c] < 0} << (c % 64);
  }
}

void SignDistances(const uint64_t* codes, size_t row_count, size_t words,
                   const uint64_t* query, uint16_t* distances) {
  HWY_DYNAMIC_DISPATCH(SignDistancesTarget)
  (codes, row_count, words, query, distances);
}

void SignDistancesScalar(const uint64_t* codes, size_t row_count, size_t words,
                         const uint64_t* query, uint16_t* distances) {
  for (size_t r = 0; r < row_count; ++r) {
    int sum = 0;
    for (size_t w = 0; w < words; ++w) {
      sum += std::popcount(codes[r * words + w] ^ query[w]);
    }
    distances[r] = static_cast<uint16_t>(sum);
  }
}

}  // namespace nexus::simd
#endif  // HWY_ONCE
