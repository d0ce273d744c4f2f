// Session: one conversation's KV cells, and how a plan's tokens come into them.
//
// A session owns a llama context with two sequences: 0 is the conversation, 1
// is KvAccess's scratch. Having a context of its own is what makes a session
// bit-stable: in a shared cache a neighbour would shift cell indices and with
// them the order of additions.
#ifndef NEXUS_ENGINE_SESSION_H_
#define NEXUS_ENGINE_SESSION_H_

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nexus/base/file_system.h"
#include "nexus/base/hash.h"
#include "nexus/base/result.h"
#include "nexus/compile/block_learner.h"
#include "nexus/engine/conversation_blocks.h"
#include "nexus/engine/engine.h"
#include "nexus/engine/prompt_plan.h"
#include "nexus/engine/repair_choice.h"
#include "nexus/engine/repair_profile.h"
#include "nexus/engine/step_batch.h"
#include "nexus/engine/tier.h"
#include "nexus/kv/recompute_plan.h"
#include "nexus/kv/splicer.h"
#include "nexus/llm/context.h"
#include "nexus/llm/kv_access.h"

namespace nexus::engine {

// The sequence of a session's context that holds the conversation.
inline constexpr llm::SequenceId kConversation = 0;

// What a study or an audit puts in the place of the store's block.
struct StudyInput {
  std::shared_ptr<const kv::KvBlock> block;
  std::vector<float> deviation;  // kv::PlanRequest::deviation; may be empty
  // Of kv::PlanRequest: unset means its own. 1 picks tokens one by one.
  std::optional<int> min_run;

  void FillIn(kv::PlanRequest* request) const {
    request->deviation = deviation;
    if (min_run.has_value()) {
      request->min_run = *min_run;
      if (*min_run == 1) request->merge_gap = 0;
    }
  }
};

struct PrepareOptions {
  Tier tier = Tier::kAuto;
  // Unset: the model's profile decides by the budget, see repair_choice.h.
  std::optional<kv::RepairPolicy> policy;
  double recompute_share = -1;  // with a policy; < 0: the policy's own curve
  Budget budget = kDefaultBudget;
  const StudyInput* study = nullptr;  // must outlive the call
  // Lists only (list_prepare.h), and of kSplice: kAuto splices several blocks
  // side by side where the model's profile says that it may, as it says.
  // Of the list's tools in order, instead of recompute_share; 1 decodes all.
  std::vector<double> block_shares = {};
  // Compile recipe of the blocks; empty: the best that the store has.
  std::string list_recipe = {};
};

class ListPreparer;

// Owned by one thread. The engine must outlive it.
class Session {
 public:
  static Result<std::unique_ptr<Session>> Create(const Engine* engine,
                                                 int context_tokens = 0);

  // Brings the plan's tokens into the context, block by the cheapest tier that
  // `options` allows, and leaves the logits of the last one at hand. Asking for
  // a tier that isn't to be had falls to prefill, with the reason in the
  // report; kResourceExhausted when the plan doesn't fit the context. A plan in
  // pieces goes through PrepareList (list_prepare.h).
  Result<TierReport> Prepare(const PromptPlan& plan,
                             const PrepareOptions& options);

  // Decodes more tokens behind what is there.
  Status Append(std::span<const llm::Token> tokens, llm::Logits logits);

  // From here on Step decodes together with other sessions where it can; null:
  // alone. The caller has the turn (step_batch.h). Step gives it up; Append,
  // Prepare and LeaveBatch take it back.
  void UseBatch(StepBatch* batch) { batch_ = batch; }
  // Decodes one sampled token. In a batch it isn't one of tokens(): the session
  // forgets it when it leaves, unless Append comes first.
  Status Step(llm::Token token);
  // Returns what is forgotten.
  std::vector<llm::Token> LeaveBatch();

  // The last row of logits. Valid until the next Prepare, Append or Step.
  std::span<const float> logits() const {
    return member_.has_value() ? step_logits_ : context_->LogitsRow(0);
  }

  // Tokens now in the context, and how many of the first were decoded or
  // restored exactly (a spliced token and all behind it are not).
  std::span<const llm::Token> tokens() const { return tokens_; }
  size_t exact_count() const { return exact_count_; }
  // How many of the first of these tokens the session holds exactly.
  size_t ExactPrefix(std::span<const llm::Token> tokens) const;

  // How many of the first of these tokens the session holds with the very bits
  // that a session has which decodes them from the beginning: exact tokens in
  // whole micro-batches, counted from the first. A token's cells depend on the
  // tokens that are decoded with it, which behind the last whole micro-batch
  // were this conversation's own.
  size_t SharedPrefix(std::span<const llm::Token> tokens) const;
  // Takes the first `count` tokens' cells of another session of the engine into
  // this empty one; SharedPrefix says how many may be taken. On failure it
  // stays empty. kUnimplemented for models whose cells can't be read.
  Status CopyPrefix(Session& from, size_t count);

  // What the last Prepare spliced as its one block; null: nothing, or a list.
  const std::shared_ptr<const kv::KvBlock>& spliced_block() const {
    return spliced_block_;
  }

  // Drops everything from `count` tokens on.
  Status TruncateTo(size_t count);

  // Keeps the plan's block cells as an exact variant in the store, if they are
  // exact and not yet there. After an answer, never before one.
  Status StoreVariant(const PromptPlan& plan, const schema::ToolSchema& tool);

  // Folds the plan's block into its stored mean, or makes its first block, if
  // the last Prepare decoded it as text: once for each such Prepare. After an
  // answer, never before one. Nothing learned and no error where there is
  // nothing to learn from or EngineOptions::learn is off.
  Result<compile::LearnReport> Learn(const PromptPlan& plan,
                                     const schema::ToolSchema& tool);
  // Keeps the plan's block cells for later turns of this conversation, if the
  // session holds them exactly (conversation_blocks.h), and returns them as a
  // block; null when it doesn't. After an answer, never before one.
  Result<std::shared_ptr<const kv::KvBlock>> Remember(
      const PromptPlan& plan, const schema::ToolSchema& tool);
  // Whether Remember can keep anything here.
  bool can_remember() const {
    return engine_->options().learn && SplicingReady().ok();
  }
  // A session keeps the block it has once spliced, whatever is learned
  // meanwhile, so that its answers don't change under it. This lets it look
  // again.
  void ForgetBlocks() {
    pinned_.clear();
    conversation_ = {};
  }

  // Writes the exact cells, from the first on, to a file of their own: a block
  // of kind kVariant. kNotFound when there are none; kUnimplemented for models
  // whose cells can't be read.
  Status SaveState(FileSystem& fs, const std::string& path);
  // A session that holds what was saved. kIncompatible: of another model or
  // attention setting; kResourceExhausted: more than the context has room for;
  // kCorruption, kNotFound.
  static Result<std::unique_ptr<Session>> LoadState(const Engine* engine,
                                                    const std::string& path);

  // Replaces the context by an empty one with this setting: benchmarks compare
  // each arm at its best.
  Status UseFlashAttention(bool on);

  llm::Context& context() { return *context_; }
  // The cells of tokens [begin, end), as they are: for studies and learning.
  Result<llm::KvRows> ReadCells(size_t begin, size_t end);
  // Cells that are still free.
  int room() const {
    return context_->options().context_tokens -
           static_cast<int>(tokens_.size() + ahead_.size());
  }

 private:
  friend class ListPreparer;
  Session() = default;
  Status Decode(std::span<const llm::Token> tokens, llm::Logits logits,
                TierReport* report);
  // Exact cells that were made at just this position, as they are.
  Result<kv::SpliceResult> WriteExact(const kv::KvBlock& block);
  // Why neither of the next two could work here at all.
  Status SplicingReady() const;
  Result<std::shared_ptr<const kv::KvBlock>> FindPinned(
      std::span<const llm::Token> block);
  // The tokens of whole micro-batches among the first `count`.
  size_t WholeBatches(size_t count) const;
  // False after UseFlashAttention changed it: exact cells are then another's.
  bool HasEngineAttention() const;
  // Each brings the block in behind the history, or returns why it can't and
  // leaves the context as it was.
  Status TryVariant(std::span<const llm::Token> block, TierReport* report);
  Status TrySplice(const PromptPlan& plan, const PrepareOptions& options,
                   TierReport* report);
  Result<RepairChoice> ChoiceFor(const ConversationBlock& source,
                                 const PrepareOptions& options) const;
  // Behind the history: this block, with this repair.
  Status SpliceBlock(const PromptPlan& plan, const PrepareOptions& options,
                     const ConversationBlock& source,
                     const RepairChoice& choice, TierReport* report);
  // Whether the session holds the plan's block exactly, behind its history.
  bool HoldsBlock(const PromptPlan& plan) const;

  const Engine* engine_ = nullptr;
  std::unique_ptr<llm::Context> context_;
  std::unique_ptr<llm::KvAccess> access_;  // null: access_status_ says why
  Status access_status_;
  std::vector<llm::Token> tokens_;
  size_t exact_count_ = 0;
  // Of the first tokens, those that were decoded in whole micro-batches.
  size_t whole_batches_ = 0;
  StepBatch* batch_ = nullptr;
  std::optional<int> member_;      // of batch_
  std::vector<llm::Token> ahead_;  // decoded there, behind tokens_
  std::span<const float> step_logits_;
  bool block_decoded_ = false;  // as text, by the last Prepare; not yet learned
  std::shared_ptr<const kv::KvBlock> spliced_block_;
  // By the hash of their tokens.
  std::map<Sha256Digest, std::shared_ptr<const kv::KvBlock>> pinned_;
  ConversationBlocks conversation_;
};

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_SESSION_H_
