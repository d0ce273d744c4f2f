#include "nexus/compile/splice_contents.h"

#include <utility>

namespace nexus::compile {

kv::BlockMetadata SpliceMetadata(const kv::Fingerprint& fingerprint,
                                 const SpliceIdentity& identity) {
  kv::BlockMetadata metadata;
  metadata.fingerprint = fingerprint;
  metadata.content = kv::SpliceContent(identity.tokens, identity.recipe);
  metadata.schema_hash = identity.schema_hash;
  metadata.recipe = identity.recipe;
  metadata.tool_name = identity.tool_name;
  return metadata;
}

kv::BlockContents SpliceContents(kv::BlockMetadata metadata,
                                 std::span<const llm::Token> tokens,
                                 const llm::KvLayout& layout,
                                 const AccumulatedBlock& block) {
  kv::BlockContents contents;
  contents.metadata = std::move(metadata);
  contents.metadata.context_count = block.context_count;
  contents.tokens = tokens;
  contents.layers = layout.layers;
  contents.k = block.k;
  contents.v = block.v;
  contents.sensitivity = block.sensitivity;
  contents.v_m2 = block.v_m2;
  return contents;
}

}  // namespace nexus::compile
