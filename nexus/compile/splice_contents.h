// What a splice block's file holds, whichever way its cells were gathered:
// compiled alone, compiled in a list, or learned from traffic.
#ifndef NEXUS_COMPILE_SPLICE_CONTENTS_H_
#define NEXUS_COMPILE_SPLICE_CONTENTS_H_

#include <span>
#include <string>

#include "nexus/compile/block_accumulator.h"
#include "nexus/kv/block_metadata.h"
#include "nexus/kv/block_writer.h"
#include "nexus/llm/kv_access.h"

namespace nexus::compile {

struct SpliceIdentity {
  std::string tool_name;
  std::string schema_hash;  // hex
  std::string recipe;
  std::span<const llm::Token> tokens;
};

// Of generation 0, before any context was counted.
kv::BlockMetadata SpliceMetadata(const kv::Fingerprint& fingerprint,
                                 const SpliceIdentity& identity);

// Counts the block's contexts into the metadata. The result refers to tokens,
// layout and block, which must outlive it.
kv::BlockContents SpliceContents(kv::BlockMetadata metadata,
                                 std::span<const llm::Token> tokens,
                                 const llm::KvLayout& layout,
                                 const AccumulatedBlock& block);

}  // namespace nexus::compile

#endif  // NEXUS_COMPILE_SPLICE_CONTENTS_H_
