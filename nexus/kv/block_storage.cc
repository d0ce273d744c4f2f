#include "nexus/kv/block_storage.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "nexus/simd/float16.h"
#include "nexus/simd/rope_rotate.h"

namespace nexus::kv {
namespace {

constexpr float kLargestF16 = 65504;

struct NamedStorage {
  std::string_view name;
  BlockStorage storage;
};
constexpr NamedStorage kNames[] = {
    {"f16", {RowStorage::kAsCached, RowStorage::kAsCached}},
    {"q8", {RowStorage::kQ8, RowStorage::kQ8}},
    {"q8-k4", {RowStorage::kQ4, RowStorage::kQ8}}};

int LargestCode(RowStorage storage) {
  return storage == RowStorage::kQ4 ? 15 : 255;
}

// Where the parts of encoded rows begin.
const uint16_t* ScalesOf(const uint8_t* encoded) {
  return reinterpret_cast<const uint16_t*>(encoded);
}
const uint16_t* MinimumsOf(const EncodedShape& shape, const uint8_t* encoded) {
  return ScalesOf(encoded) + shape.group_count() * shape.elements;
}
size_t CodesOffset(const EncodedShape& shape) {
  return shape.group_count() * shape.elements * 2 * sizeof(uint16_t);
}

Status CheckRange(const EncodedShape& shape, const float* rows) {
  for (size_t i = 0; i < shape.tokens * shape.elements; ++i) {
    // Not `> kLargestEncodable`: that lets NaN pass.
    if (std::fabs(rows[i]) <= kLargestEncodable) continue;
    return InvalidArgumentError(
        "token " + std::to_string(i / shape.elements) + ", element " +
        std::to_string(i % shape.elements) + " is " + std::to_string(rows[i]) +
        ", at most " + std::to_string(kLargestEncodable) +
        " can be stored in fewer bits; store it as f16");
  }
  return Status::Ok();
}

}  // namespace

std::string BlockStorageName(const BlockStorage& storage) {
  for (const NamedStorage& entry : kNames) {
    if (entry.storage == storage) return std::string(entry.name);
  }
  return "k " + std::to_string(static_cast<int>(storage.k)) + ", v " +
         std::to_string(static_cast<int>(storage.v));
}

std::optional<BlockStorage> ParseBlockStorage(std::string_view name) {
  for (const NamedStorage& entry : kNames) {
    if (entry.name == name) return entry.storage;
  }
  return std::nullopt;
}

Status EncodeRows(const EncodedShape& shape, const float* rows, uint8_t* out) {
  NEXUS_RETURN_IF_ERROR(CheckRange(shape, rows));
  auto* scales = reinterpret_cast<uint16_t*>(out);
  uint16_t* minimums = scales + shape.group_count() * shape.elements;
  uint8_t* codes = out + CodesOffset(shape);
  const auto largest = static_cast<float>(LargestCode(shape.storage));
  const size_t half = shape.code_row_bytes();
  for (size_t group = 0; group < shape.group_count(); ++group) {
    const size_t begin = group * kStorageGroupTokens;
    const size_t end = std::min(begin + kStorageGroupTokens, shape.tokens);
    for (size_t i = 0; i < shape.elements; ++i) {
      float low = rows[begin * shape.elements + i];
      float high = low;
      for (size_t token = begin + 1; token < end; ++token) {
        low = std::min(low, rows[token * shape.elements + i]);
        high = std::max(high, rows[token * shape.elements + i]);
      }
      const size_t at = group * shape.elements + i;
      minimums[at] = simd::F32ToF16Bits(low);
      // Codes count from the minimum as it is stored.
      const float minimum = simd::F16BitsToF32(minimums[at]);
      scales[at] = simd::F32ToF16Bits(std::max(0.0F, high - minimum) / largest);
      const float scale = simd::F16BitsToF32(scales[at]);
      for (size_t token = begin; token < end; ++token) {
        const float value = rows[token * shape.elements + i];
        // A scale that underflowed to 0: the channel stands still.
        const float steps =
            scale > 0 ? std::round((value - minimum) / scale) : 0.0F;
        const auto code =
            static_cast<uint8_t>(std::clamp(steps, 0.0F, largest));
        uint8_t* row = codes + token * shape.code_row_bytes();
        if (shape.storage == RowStorage::kQ8) {
          row[i] = code;
        } else if (i < half) {
          row[i] = code;  // clears the high bits: they are filled later
        } else {
          row[i - half] = static_cast<uint8_t>(row[i - half] | code << 4);
        }
      }
    }
  }
  return Status::Ok();
}

void DecodeRows(const EncodedShape& shape, const uint8_t* encoded, size_t token,
                size_t count, float* out) {
  const size_t elements = shape.elements;
  const size_t half = shape.code_row_bytes();
  std::vector<float> scale(elements);
  std::vector<float> minimum(elements);
  size_t loaded = shape.group_count();  // none
  for (size_t end = token + count; token < end; ++token, out += elements) {
    const size_t group = token / kStorageGroupTokens;
    if (group != loaded) {
      const size_t at = group * elements;
      simd::F16ToF32(ScalesOf(encoded) + at, scale.data(), elements);
      simd::F16ToF32(MinimumsOf(shape, encoded) + at, minimum.data(), elements);
      loaded = group;
    }
    const uint8_t* codes = encoded + CodesOffset(shape) + token * half;
    // A scale has 11 significant bits and a code 8: the product is exact, and
    // the sum is the same with and without a fused multiply-add.
    if (shape.storage == RowStorage::kQ8) {
      for (size_t i = 0; i < elements; ++i) {
        out[i] = minimum[i] + scale[i] * static_cast<float>(codes[i]);
      }
      continue;
    }
    for (size_t i = 0; i < half; ++i) {
      out[i] = minimum[i] + scale[i] * static_cast<float>(codes[i] & 15);
    }
    for (size_t i = half; i < elements; ++i) {
      out[i] = minimum[i] + scale[i] * static_cast<float>(codes[i - half] >> 4);
    }
  }
}

std::optional<size_t> FindBadScale(const EncodedShape& shape,
                                   const uint8_t* encoded) {
  const uint16_t* scales = ScalesOf(encoded);
  const uint16_t* minimums = MinimumsOf(shape, encoded);
  const auto largest = static_cast<float>(LargestCode(shape.storage));
  const size_t count = shape.group_count() * shape.elements;
  for (size_t i = 0; i < count; ++i) {
    const float scale = simd::F16BitsToF32(scales[i]);
    const float minimum = simd::F16BitsToF32(minimums[i]);
    // Written so that NaN fails.
    if (!(scale >= 0 && scale * largest <= 2 * kLargestF16)) {
      return i * sizeof(uint16_t);
    }
    const float highest = minimum + scale * largest;
    if (!(minimum >= -kLargestF16 && highest <= kLargestF16)) {
      return (count + i) * sizeof(uint16_t);
    }
  }
  return std::nullopt;
}

}  // namespace nexus::kv
