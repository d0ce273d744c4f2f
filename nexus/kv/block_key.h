// BlockKey: the address of a block, made of what its bytes depend on.
#ifndef NEXUS_KV_BLOCK_KEY_H_
#define NEXUS_KV_BLOCK_KEY_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "nexus/base/hash.h"
#include "nexus/llm/model.h"

namespace nexus::kv {

enum class BlockKind : uint32_t {
  kSplice = 1,   // keys un-rotated to position 0: may stand anywhere
  kVariant = 2,  // cells as they were, behind one exact token sequence
};

// "splice" or "variant".
std::string_view BlockKindName(BlockKind kind);

struct BlockKey {
  Sha256Digest fingerprint{};  // Fingerprint::Digest()
  BlockKind kind = BlockKind::kSplice;
  Sha256Digest content{};  // SpliceContent() or VariantContent()

  // SHA-256 over the three parts; its hex digits are the file's name.
  Sha256Digest Digest() const;

  friend bool operator==(const BlockKey&, const BlockKey&) = default;
};

// A splice block depends on its own tokens and on the compile recipe.
Sha256Digest SpliceContent(std::span<const llm::Token> tokens,
                           std::string_view recipe);
// A variant depends on every token before it, and on its own.
Sha256Digest VariantContent(std::span<const llm::Token> preceding,
                            std::span<const llm::Token> tokens);

}  // namespace nexus::kv

#endif  // NEXUS_KV_BLOCK_KEY_H_
