#include "nexus/serve/base64.h"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace nexus::serve {

std::string Base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = bytes.size() - i < 3 ? bytes.size() - i : 3;
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j) {
      group <<= 8U;
      if (j < count) group |= static_cast<uint8_t>(bytes[i + j]);
    }
    // Bytes 1, 2, 3 need digits 2, 3, 4; the rest is padding.
    for (size_t j = 0; j < 4; ++j) {
      const uint32_t digit = (group >> (18U - 6U * j)) & 63U;
      text.push_back(j <= count ? kDigits[digit] : '=');
    }
  }
  return text;
}

std::string Base64(std::span<const float> values) {
  std::string bytes;
  bytes.reserve(values.size() * 4);
  for (const float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    for (uint32_t shift = 0; shift < 32; shift += 8) {
      bytes.push_back(static_cast<char>((bits >> shift) & 0xFFU));
    }
  }
  return Base64(std::string_view(bytes));
}

}  // namespace nexus::serve
