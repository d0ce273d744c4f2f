#include "nexus/base/base64.h"

#include <openssl/evp.h>

#include <bit>
#include <cstdint>

namespace nexus {

std::string Base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4, '\0');
  // It ends the text with a zero, where the string has its own.
  ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),  // NOLINT
                    reinterpret_cast<const unsigned char*>(         // NOLINT
                        bytes.data()),
                    static_cast<int>(bytes.size()));
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

}  // namespace nexus
