// BlockMetadata: what a block says about itself, in memory and as canonical
// JSON.
#ifndef NEXUS_KV_BLOCK_METADATA_H_
#define NEXUS_KV_BLOCK_METADATA_H_

#include <string>
#include <string_view>

#include "nexus/base/result.h"
#include "nexus/kv/block_key.h"
#include "nexus/kv/fingerprint.h"

namespace nexus::kv {

struct BlockMetadata {
  Fingerprint fingerprint;
  Sha256Digest content{};  // BlockKey::content
  // SHA-256 hex of the canonical schema; empty for a block of no single tool.
  std::string schema_hash;
  std::string recipe;     // name of the compile recipe
  std::string tool_name;  // for people: "weather/get_forecast"

  // In the header's binary fields, not in the JSON.
  BlockKind kind = BlockKind::kSplice;
  int generation = 0;
  int context_count = 1;       // compile contexts behind the mean
  llm::Position position = 0;  // of a variant's first token; 0 for splice

  BlockKey Key() const { return {fingerprint.Digest(), kind, content}; }

  friend bool operator==(const BlockMetadata&, const BlockMetadata&) = default;
};

// One line, fixed field order: the same metadata always give the same bytes.
std::string EncodeMetadataJson(const BlockMetadata& metadata);
// Fills the JSON's fields of the result and leaves the header's at their
// defaults. kCorruption names `source`, the field and what was wrong with it.
// Unknown fields are ignored: a newer writer may add some.
Result<BlockMetadata> DecodeMetadataJson(std::string_view json,
                                         std::string_view source);

}  // namespace nexus::kv

#endif  // NEXUS_KV_BLOCK_METADATA_H_
