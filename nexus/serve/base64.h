// Base64 of vectors: how OpenAI's clients want embeddings unless they ask for
// numbers.
#ifndef NEXUS_SERVE_BASE64_H_
#define NEXUS_SERVE_BASE64_H_

#include <span>
#include <string>
#include <string_view>

namespace nexus::serve {

std::string Base64(std::string_view bytes);
// Of the values as little-endian 32-bit floats.
std::string Base64(std::span<const float> values);

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_BASE64_H_
