// Hashes: SHA-256 for identity (content addresses, fingerprints), XXH3 for
// checksums of sections (fast, not for adversaries).
#ifndef NEXUS_BASE_HASH_H_
#define NEXUS_BASE_HASH_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "nexus/base/result.h"

namespace nexus {

using Sha256Digest = std::array<uint8_t, 32>;

// Thread-compatible.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void Update(const void* data, size_t byte_count);
  void Update(std::string_view text) { Update(text.data(), text.size()); }
  // Ends the computation; call once.
  Sha256Digest Finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

Sha256Digest Sha256Of(std::string_view bytes);
// Reads the file in pieces. kNotFound or kIoError with the path.
Result<Sha256Digest> Sha256OfFile(const std::string& path);
// 64 lower-case hex digits.
std::string ToHex(const Sha256Digest& digest);
Result<Sha256Digest> ParseSha256Hex(std::string_view hex);

uint64_t Xxh3(const void* data, size_t byte_count);

}  // namespace nexus

#endif  // NEXUS_BASE_HASH_H_
