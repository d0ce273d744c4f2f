// How a block's rows are stored: as the cache holds them, or in 8 or 4 bits.
//
//   value = minimum + scale * code
//
// with one float16 scale and minimum for each channel and each 64 tokens. Along
// the tokens and not along the row, because un-rotated keys have channels with
// an offset of their own, many times what differs from token to token: a
// group of the row spends its steps on the offset and loses the difference, a
// channel keeps both. At the bit rate of groups along the row (8.5 and 4.5 bits
// an element) see row_error_bench.cc for what each loses.
#ifndef NEXUS_KV_BLOCK_STORAGE_H_
#define NEXUS_KV_BLOCK_STORAGE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "nexus/base/result.h"

namespace nexus::kv {

// Values are the format's.
enum class RowStorage : uint16_t {
  kAsCached = 0,  // the layer's own element type
  kQ8 = 1,
  kQ4 = 2,  // keys only: values lose too much
};

struct BlockStorage {
  RowStorage k = RowStorage::kAsCached;
  RowStorage v = RowStorage::kAsCached;

  bool is_as_cached() const { return *this == BlockStorage{}; }
  friend bool operator==(const BlockStorage&, const BlockStorage&) = default;
};

// "f16" (as the cache holds them, so float32 in a float32 cache), "q8",
// "q8-k4"; other pairs as "k 2, v 0".
std::string BlockStorageName(const BlockStorage& storage);
// Nothing for any other text.
std::optional<BlockStorage> ParseBlockStorage(std::string_view name);

// One of a write's pieces, and at 4 bits half a bit an element of scales.
inline constexpr size_t kStorageGroupTokens = 64;
// Codes reach up to float16's largest number, 65504, with room for rounding.
inline constexpr float kLargestEncodable = 32768;

// Encoded rows of one layer, scales and minimums float16:
//   scales    [group][elements]
//   minimums  [group][elements]
//   codes     [token][elements], one byte each; or, of 4 bits, [token][half]
//             with half = ceil(elements / 2): byte i holds element i in its low
//             bits and element half + i in its high ones
struct EncodedShape {
  RowStorage storage = RowStorage::kQ8;
  size_t tokens = 0;
  size_t elements = 0;

  size_t group_count() const {
    return (tokens + kStorageGroupTokens - 1) / kStorageGroupTokens;
  }
  size_t code_row_bytes() const {
    return storage == RowStorage::kQ4 ? (elements + 1) / 2 : elements;
  }
  uint64_t byte_count() const {
    return uint64_t{group_count()} * elements * 2 * sizeof(uint16_t) +
           uint64_t{tokens} * code_row_bytes();
  }
};

// `rows` is [token][elements]; `out` has shape.byte_count() bytes, aligned to
// 2. kInvalidArgument, naming the element, for what isn't finite or is above
// kLargestEncodable.
Status EncodeRows(const EncodedShape& shape, const float* rows, uint8_t* out);

// Rows [token, token + count) of encoded ones; `out` is [count][elements].
void DecodeRows(const EncodedShape& shape, const uint8_t* encoded, size_t token,
                size_t count, float* out);

// Offset of the first scale or minimum with which a code would become no
// float16: not finite, a negative scale, or too large. Nothing: all are sound.
std::optional<size_t> FindBadScale(const EncodedShape& shape,
                                   const uint8_t* encoded);

}  // namespace nexus::kv

#endif  // NEXUS_KV_BLOCK_STORAGE_H_
