#include "nexus/kv/block_key.h"

#include <vector>

#include "nexus/kv/block_format.h"

namespace nexus::kv {
namespace {

// Little-endian, so that a store can move between machines. The count in front
// keeps (preceding, own) from being cut at another place with the same hash.
void UpdateWithTokens(Sha256& hash, std::span<const llm::Token> tokens) {
  std::vector<uint8_t> bytes(8 + 4 * tokens.size());
  StoreLittle<uint64_t>(tokens.size(), bytes.data());
  for (size_t i = 0; i < tokens.size(); ++i) {
    StoreLittle(static_cast<uint32_t>(tokens[i]), bytes.data() + 8 + 4 * i);
  }
  hash.Update(bytes.data(), bytes.size());
}

}  // namespace

std::string_view BlockKindName(BlockKind kind) {
  return kind == BlockKind::kSplice ? "splice" : "variant";
}

Sha256Digest BlockKey::Digest() const {
  uint8_t kind_bytes[4];
  StoreLittle(static_cast<uint32_t>(kind), kind_bytes);
  Sha256 hash;
  hash.Update(fingerprint.data(), fingerprint.size());
  hash.Update(kind_bytes, sizeof(kind_bytes));
  hash.Update(content.data(), content.size());
  return hash.Finish();
}

Sha256Digest SpliceContent(std::span<const llm::Token> tokens,
                           std::string_view recipe) {
  Sha256 hash;
  UpdateWithTokens(hash, tokens);
  hash.Update(recipe);
  return hash.Finish();
}

Sha256Digest VariantContent(std::span<const llm::Token> preceding,
                            std::span<const llm::Token> tokens) {
  Sha256 hash;
  UpdateWithTokens(hash, preceding);
  UpdateWithTokens(hash, tokens);
  return hash.Finish();
}

}  // namespace nexus::kv
