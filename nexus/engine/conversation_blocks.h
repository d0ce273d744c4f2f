// ConversationBlocks: schemas as they stood earlier in one conversation.
//
// What a block's cells drift by is, above all, what the conversation says: a
// block taken behind the first part of the same conversation is several times
// nearer to a full prefill than a mean over compile contexts (decision 0011).
// So a session keeps the cells of each schema that it has decoded as text, and
// splices those, turned to the new position, when the conversation has grown.
//
// Only the session's own: what another session left behind must not change this
// one's answers.
#ifndef NEXUS_ENGINE_CONVERSATION_BLOCKS_H_
#define NEXUS_ENGINE_CONVERSATION_BLOCKS_H_

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nexus/base/hash.h"
#include "nexus/kv/block_reader.h"
#include "nexus/schema/schema_frame.h"

namespace nexus::engine {

// Compile recipe of such blocks: "conversation-chatml". They are written,
// checked and mapped like all others but never taken into the store: the
// mapping is the session's, and nobody else's blocks make room for it.
std::string ConversationRecipeName(const schema::SchemaFrame& frame);

struct ConversationBlock {
  std::shared_ptr<const kv::KvBlock> block;
  // Of the tokens now in front, the share that stood in front then.
  double shared = 0;
};

// Thread-compatible.
class ConversationBlocks {
 public:
  // Replaces what was kept of these tokens. Beyond kLimit schemas the one that
  // was used least recently is dropped.
  void Keep(std::span<const llm::Token> preceding,
            std::shared_ptr<const kv::KvBlock> block);
  // A null block when there is none, or when the conversation has been changed
  // before the place where it was taken.
  ConversationBlock Find(std::span<const llm::Token> history,
                         std::span<const llm::Token> block);
  size_t size() const { return kept_.size(); }

  // About 2.6 MB each on the default model, of disk or page cache.
  static constexpr size_t kLimit = 16;

 private:
  struct Kept {
    std::vector<llm::Token> preceding;
    std::shared_ptr<const kv::KvBlock> block;
    uint64_t last_use = 0;
  };
  // By the hash of the block's tokens.
  std::map<Sha256Digest, Kept> kept_;
  uint64_t uses_ = 0;
};

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_CONVERSATION_BLOCKS_H_
