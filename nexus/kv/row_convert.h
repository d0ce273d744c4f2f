// Rows of the cache's element types from and to float32.
#ifndef NEXUS_KV_ROW_CONVERT_H_
#define NEXUS_KV_ROW_CONVERT_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "nexus/llm/kv_access.h"
#include "nexus/simd/rope_rotate.h"

namespace nexus::kv {

// Both pointers aligned to their elements.
inline void RowsToF32(llm::KvType type, const uint8_t* in, size_t elements,
                      float* out) {
  if (type == llm::KvType::kF16) {
    simd::F16ToF32(reinterpret_cast<const uint16_t*>(in), out, elements);
  } else {
    std::copy_n(reinterpret_cast<const float*>(in), elements, out);
  }
}

inline void RowsFromF32(llm::KvType type, const float* in, size_t elements,
                        uint8_t* out) {
  if (type == llm::KvType::kF16) {
    simd::F32ToF16(in, reinterpret_cast<uint16_t*>(out), elements);
  } else {
    std::copy_n(in, elements, reinterpret_cast<float*>(out));
  }
}

inline std::vector<uint8_t> RowsFromF32(llm::KvType type,
                                        const std::vector<float>& in) {
  std::vector<uint8_t> bytes(in.size() * llm::KvElementBytes(type));
  RowsFromF32(type, in.data(), in.size(), bytes.data());
  return bytes;
}

}  // namespace nexus::kv

#endif  // NEXUS_KV_ROW_CONVERT_H_
