#include "nexus/base/hash.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <vector>

#include "nexus/base/check.h"
#include "nexus/base/unique_fd.h"

namespace nexus {
namespace {

// Large enough that system calls cost nothing beside hashing, small enough to
// stay in the second-level cache.
constexpr size_t kReadBytes = size_t{256} << 10;

int HexDigitValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

struct Sha256::Impl {
  struct Free {
    void operator()(EVP_MD_CTX* freed) const { EVP_MD_CTX_free(freed); }
  };
  std::unique_ptr<EVP_MD_CTX, Free> context{EVP_MD_CTX_new()};
};

// OpenSSL fails here only when memory is out or SHA-256 is disabled by a
// provider configuration; nothing that a caller could handle.
Sha256::Sha256() : impl_(std::make_unique<Impl>()) {
  NEXUS_CHECK(impl_->context != nullptr);
  NEXUS_CHECK(EVP_DigestInit_ex(impl_->context.get(), EVP_sha256(), nullptr) ==
              1);
}

Sha256::~Sha256() = default;

void Sha256::Update(const void* data, size_t byte_count) {
  NEXUS_CHECK(EVP_DigestUpdate(impl_->context.get(), data, byte_count) == 1);
}

Sha256Digest Sha256::Finish() {
  Sha256Digest digest;
  NEXUS_CHECK(
      EVP_DigestFinal_ex(impl_->context.get(), digest.data(), nullptr) == 1);
  return digest;
}

Sha256Digest Sha256Of(std::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.Finish();
}

Result<Sha256Digest> Sha256OfFile(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoError("open", path, errno);
  Sha256 hash;
  std::vector<char> buffer(kReadBytes);
  for (;;) {
    const ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoError("read", path, errno);
    if (count == 0) return hash.Finish();
    hash.Update(buffer.data(), static_cast<size_t>(count));
  }
}

std::string ToHex(const Sha256Digest& digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * digest.size());
  for (const uint8_t byte : digest) {
    hex += kDigits[byte >> 4];
    hex += kDigits[byte & 15];
  }
  return hex;
}

Result<Sha256Digest> ParseSha256Hex(std::string_view hex) {
  Sha256Digest digest;
  if (hex.size() != 2 * digest.size()) {
    return InvalidArgumentError("SHA-256: expected 64 hex digits, found " +
                                std::to_string(hex.size()) + " characters");
  }
  for (size_t i = 0; i < digest.size(); ++i) {
    const int high = HexDigitValue(hex[2 * i]);
    const int low = HexDigitValue(hex[2 * i + 1]);
    if (high < 0 || low < 0) {
      return InvalidArgumentError("SHA-256: not a hex digit at offset " +
                                  std::to_string(2 * i + (high < 0 ? 0 : 1)));
    }
    digest[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return digest;
}

uint64_t Xxh3(const void* data, size_t byte_count) {
  return XXH3_64bits(data, byte_count);
}

}  // namespace nexus
