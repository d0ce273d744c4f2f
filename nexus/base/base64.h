// Base64, padded: of bytes, and of vectors, which OpenAI's clients want so
// unless they ask for numbers.
#ifndef NEXUS_BASE_BASE64_H_
#define NEXUS_BASE_BASE64_H_

#include <span>
#include <string>
#include <string_view>

namespace nexus {

std::string Base64(std::string_view bytes);
// Of the values as little-endian 32-bit floats.
std::string Base64(std::span<const float> values);

}  // namespace nexus

#endif  // NEXUS_BASE_BASE64_H_
