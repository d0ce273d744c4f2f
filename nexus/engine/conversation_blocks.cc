#include "nexus/engine/conversation_blocks.h"

#include <algorithm>
#include <utility>

#include "nexus/kv/block_key.h"

namespace nexus::engine {

std::string ConversationRecipeName(const schema::SchemaFrame& frame) {
  return "conversation-" + frame.family;
}

void ConversationBlocks::Keep(std::span<const llm::Token> preceding,
                              std::shared_ptr<const kv::KvBlock> block) {
  const Sha256Digest key = kv::SpliceContent(block->tokens(), "");
  kept_[key] = {
      {preceding.begin(), preceding.end()}, std::move(block), ++uses_};
  if (kept_.size() <= kLimit) return;
  kept_.erase(std::min_element(kept_.begin(), kept_.end(),
                               [](const auto& a, const auto& b) {
                                 return a.second.last_use < b.second.last_use;
                               }));
}

ConversationBlock ConversationBlocks::Find(std::span<const llm::Token> history,
                                           std::span<const llm::Token> block) {
  const auto found = kept_.find(kv::SpliceContent(block, ""));
  if (found == kept_.end() || history.empty()) return {};
  Kept& kept = found->second;
  if (kept.preceding.size() > history.size() ||
      !std::equal(kept.preceding.begin(), kept.preceding.end(),
                  history.begin())) {
    return {};
  }
  kept.last_use = ++uses_;
  return {kept.block, static_cast<double>(kept.preceding.size()) /
                          static_cast<double>(history.size())};
}

}  // namespace nexus::engine
