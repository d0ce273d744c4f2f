#include "nexus/engine/session.h"

#include <algorithm>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/compile/block_compiler.h"
#include "nexus/engine/audit.h"
#include "nexus/engine/list_prepare.h"
#include "nexus/engine/repair_choice.h"

namespace nexus::engine {
namespace {

using llm::Token;

std::vector<Token> Concatenate(
    std::initializer_list<std::span<const Token>> parts) {
  std::vector<Token> all;
  for (std::span<const Token> part : parts) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

class Stopwatch {
 public:
  explicit Stopwatch(double* total_ms)
      : total_ms_(total_ms), start_(Clock::Monotonic().Now()) {}
  ~Stopwatch() {
    *total_ms_ += Milliseconds(Clock::Monotonic().Now() - start_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double* total_ms_;
  std::chrono::nanoseconds start_;
};

compile::LearnRequest LearnRequestFor(const PromptPlan& plan,
                                      const schema::ToolSchema& tool) {
  compile::LearnRequest request;
  request.sequence = kConversation;
  request.position = static_cast<llm::Position>(plan.history.size());
  request.tokens = plan.block;
  request.tool_name = schema::ToolId(tool);
  request.schema_hash = ToHex(schema::SchemaHash(tool));
  return request;
}

}  // namespace

Result<std::unique_ptr<Session>> Session::Create(const Engine* engine,
                                                 int context_tokens) {
  std::unique_ptr<Session> session(new Session());
  session->engine_ = engine;
  NEXUS_ASSIGN_OR_RETURN(session->context_, engine->NewContext(context_tokens));
  if (engine->splice_status().ok()) {
    auto access = llm::KvAccess::Create(session->context_.get());
    session->access_status_ = access.status();
    if (access.ok()) session->access_ = std::move(access).value();
  }
  return session;
}

Status Session::UseFlashAttention(bool on) {
  llm::ContextOptions options = context_->options();
  options.flash_attention = on;
  NEXUS_ASSIGN_OR_RETURN(
      auto context, llm::Context::Create(engine_->shared_model(), options));
  std::unique_ptr<llm::KvAccess> access;
  if (engine_->splice_status().ok()) {
    NEXUS_ASSIGN_OR_RETURN(access, llm::KvAccess::Create(context.get()));
  }
  access_ = std::move(access);
  context_ = std::move(context);
  tokens_.clear();
  exact_count_ = 0;
  whole_batches_ = 0;
  return Status::Ok();
}

Status Session::Append(std::span<const Token> tokens, llm::Logits logits) {
  if (member_.has_value()) {
    return Append(Concatenate({LeaveBatch(), tokens}), logits);
  }
  NEXUS_RETURN_IF_ERROR(
      context_->Decode(tokens, static_cast<llm::Position>(tokens_.size()),
                       kConversation, logits));
  if (exact_count_ == tokens_.size()) exact_count_ += tokens.size();
  if (whole_batches_ == tokens_.size()) {
    whole_batches_ = WholeBatches(tokens_.size() + tokens.size());
  }
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  return Status::Ok();
}

Status Session::Step(Token token) {
  if (batch_ != nullptr && !member_.has_value()) {
    const auto joined = batch_->Join(*context_, kConversation);
    // What can't be copied now can't be copied at the next token either: it is
    // decoded here, by whoever has the turn.
    if (joined.ok()) {
      member_ = *joined;
    } else {
      batch_ = nullptr;
    }
  }
  if (!member_.has_value()) return Append({&token, 1}, llm::Logits::kLast);
  if (context_->is_cancelled()) return CancelledError("decoding was cancelled");
  NEXUS_ASSIGN_OR_RETURN(step_logits_, batch_->Step(*member_, token));
  ahead_.push_back(token);
  return Status::Ok();
}

std::vector<Token> Session::LeaveBatch() {
  if (!member_.has_value()) return {};
  batch_->Leave(*member_);
  member_.reset();
  return std::exchange(ahead_, {});
}

Status Session::Decode(std::span<const Token> tokens, llm::Logits logits,
                       TierReport* report) {
  if (tokens.empty()) return Status::Ok();
  const Stopwatch watch(&report->decode_ms);
  report->prefilled_tokens += static_cast<int>(tokens.size());
  return Append(tokens, logits);
}

Status Session::TruncateTo(size_t count) {
  if (count >= tokens_.size()) return Status::Ok();
  if (!context_->RemoveCells(kConversation, static_cast<llm::Position>(count),
                             -1)) {
    // Recurrent state can't be cut: begin anew.
    context_->Clear();
    count = 0;
  }
  tokens_.resize(count);
  exact_count_ = std::min(exact_count_, count);
  whole_batches_ = WholeBatches(std::min(whole_batches_, count));
  return Status::Ok();
}

size_t Session::ExactPrefix(std::span<const Token> tokens) const {
  const size_t limit = std::min(tokens.size(), exact_count_);
  const auto held = tokens_.begin();
  return static_cast<size_t>(
      std::mismatch(held, held + static_cast<std::ptrdiff_t>(limit),
                    tokens.begin())
          .first -
      held);
}

Status Session::SplicingReady() const {
  NEXUS_RETURN_IF_ERROR(engine_->splice_status());
  NEXUS_RETURN_IF_ERROR(engine_->store_status());
  return access_status_;
}

Status Session::TryVariant(std::span<const Token> block_tokens,
                           TierReport* report) {
  const Stopwatch watch(&report->lookup_ms);
  const kv::BlockKey key = engine_->VariantKey(tokens_, block_tokens);
  if (!HasEngineAttention() || !engine_->store()->Contains(key)) {
    return NotFoundError("exact-variant: none stored for this conversation");
  }
  NEXUS_ASSIGN_OR_RETURN(
      auto block,
      engine_->store()->Find(
          key, {.expected = &engine_->fingerprint(kv::BlockKind::kVariant)}));
  if (!std::equal(block->tokens().begin(), block->tokens().end(),
                  block_tokens.begin(), block_tokens.end())) {
    return CorruptionError(block->path() +
                           ": holds other tokens than its address says; delete "
                           "it");
  }
  NEXUS_ASSIGN_OR_RETURN(const kv::SpliceResult spliced, WriteExact(*block));
  report->lookup_ms -= spliced.write_ms;
  report->write_ms += spliced.write_ms;
  report->restored_tokens += static_cast<int>(block_tokens.size());
  report->staging_bytes =
      std::max(report->staging_bytes, spliced.staging_bytes);
  report->block_bytes += block->file_bytes();
  report->block_file = block->path();
  return Status::Ok();
}

Result<kv::SpliceResult> Session::WriteExact(const kv::KvBlock& block) {
  NEXUS_ASSIGN_OR_RETURN(
      const kv::RecomputePlan whole,
      kv::PlanRecompute({.policy = kv::RepairPolicy::kNone,
                         .token_count = block.token_count()}));
  NEXUS_ASSIGN_OR_RETURN(
      const kv::SpliceResult spliced,
      kv::Splice(*context_, *access_, engine_->rope(), block, whole,
                 {.sequence = kConversation,
                  .position = static_cast<llm::Position>(tokens_.size())}));
  tokens_.insert(tokens_.end(), block.tokens().begin(), block.tokens().end());
  exact_count_ = tokens_.size();
  return spliced;
}

Status Session::TrySplice(const PromptPlan& plan, const PrepareOptions& options,
                          TierReport* report) {
  if (options.study != nullptr) {
    const ConversationBlock source = {options.study->block, 0};
    NEXUS_ASSIGN_OR_RETURN(const RepairChoice choice,
                           ChoiceFor(source, options));
    return SpliceBlock(plan, options, source, choice, report);
  }
  ConversationBlock source;
  {
    const Stopwatch watch(&report->lookup_ms);
    NEXUS_RETURN_IF_ERROR(
        CheckDemotion(*engine_->store(), engine_->SchemaKey(plan.block)));
    source = conversation_.Find(tokens_, plan.block);
  }
  Result<RepairChoice> choice = NotFoundError("");
  if (source.block != nullptr) choice = ChoiceFor(source, options);
  // Without a measurement to compare by, the conversation's own cells are
  // taken, and the store needn't be asked.
  if (!choice.ok() || choice->kl_mean >= 0) {
    ConversationBlock stored;
    {
      const Stopwatch watch(&report->lookup_ms);
      auto found = FindPinned(plan.block);
      if (found.ok()) {
        stored.block = *std::move(found);
      } else if (source.block == nullptr) {
        return found.status();
      }
    }
    if (stored.block != nullptr) {
      Result<RepairChoice> other = ChoiceFor(stored, options);
      if (!choice.ok() || (other.ok() && IsCheaper(*other, *choice))) {
        // Why the nearer cells weren't taken.
        if (source.block != nullptr && !choice.ok()) {
          report->reasons.push_back(choice.status().message());
        }
        source = stored;
        choice = std::move(other);
      }
    }
  }
  NEXUS_RETURN_IF_ERROR(choice.status());
  return SpliceBlock(plan, options, source, *choice, report);
}

Result<RepairChoice> Session::ChoiceFor(const ConversationBlock& source,
                                        const PrepareOptions& options) const {
  const kv::KvBlock& block = *source.block;
  return ChooseRepair({.policy = options.policy,
                       .share = options.recompute_share,
                       .budget = options.budget,
                       .depth = static_cast<int>(tokens_.size()),
                       .compile_contexts = block.metadata().context_count,
                       .storage = block.storage(),
                       .shared = source.shared,
                       .profile = engine_->profile(),
                       .profile_note = engine_->profile_status().message()});
}

Status Session::SpliceBlock(const PromptPlan& plan,
                            const PrepareOptions& options,
                            const ConversationBlock& source,
                            const RepairChoice& choice, TierReport* report) {
  const std::shared_ptr<const kv::KvBlock>& block = source.block;
  const auto position = static_cast<llm::Position>(tokens_.size());
  if (!choice.note.empty()) report->reasons.push_back(choice.note);
  kv::PlanRequest request = {.policy = choice.policy,
                             .token_count = static_cast<int>(plan.block.size()),
                             .depth = choice.curve_depth,
                             .share = choice.share,
                             .sensitivity = block->sensitivity()};
  if (options.study != nullptr) options.study->FillIn(&request);
  NEXUS_ASSIGN_OR_RETURN(const kv::RecomputePlan repair,
                         kv::PlanRecompute(request));
  if (repair.share >= 1.0) {
    return UnimplementedError(
        "splice: at depth " + std::to_string(position) +
        " the repair policy re-decodes everything, which is a prefill");
  }
  report->policy = kv::RepairPolicyName(repair.policy);
  if (repair.policy != choice.policy) {
    report->reasons.push_back(
        "repair: the block has no sensitivity profile (compiled after one "
        "context), so " +
        report->policy + " was followed instead");
  }
  NEXUS_ASSIGN_OR_RETURN(
      const kv::SpliceResult spliced,
      kv::Splice(*context_, *access_, engine_->rope(), *block, repair,
                 {.sequence = kConversation, .position = position}));
  report->write_ms = spliced.write_ms;
  report->repair_ms = spliced.repair_ms;
  report->recomputed_tokens = spliced.recomputed_tokens;
  report->spliced_tokens =
      static_cast<int>(plan.block.size()) - spliced.recomputed_tokens;
  report->decode_runs = repair.decode_calls;
  report->recompute_share = repair.share;
  report->staging_bytes = spliced.staging_bytes;
  report->block_bytes = block->file_bytes();
  report->block_samples = block->metadata().context_count;
  report->shared_history = source.shared;
  report->block_file = block->path();
  spliced_block_ = block;
  // exact_count_ stays where the block begins: nothing behind it is exact.
  tokens_.insert(tokens_.end(), plan.block.begin(), plan.block.end());
  return Status::Ok();
}

Result<llm::KvRows> Session::ReadCells(size_t begin, size_t end) {
  if (access_ == nullptr) return access_status_;
  return access_->Read(kConversation, static_cast<llm::Position>(begin),
                       static_cast<llm::Position>(end));
}

Result<std::shared_ptr<const kv::KvBlock>> Session::FindPinned(
    std::span<const Token> block) {
  const Sha256Digest tokens = kv::SpliceContent(block, "");
  if (const auto found = pinned_.find(tokens); found != pinned_.end()) {
    return found->second;
  }
  NEXUS_ASSIGN_OR_RETURN(auto found, engine_->FindSplice(block));
  pinned_.emplace(tokens, found);
  return found;
}

Result<TierReport> Session::Prepare(const PromptPlan& plan,
                                    const PrepareOptions& options) {
  LeaveBatch();
  spliced_block_.reset();
  if (!plan.pieces.empty()) {
    block_decoded_ = false;
    return PrepareList(*this, plan, options);
  }
  TierReport report;
  const std::vector<Token> all =
      Concatenate({plan.history, plan.block, plan.user, plan.preamble});
  if (all.empty()) return InvalidArgumentError("the prompt has no tokens");
  const auto capacity = static_cast<size_t>(context_->options().context_tokens);
  if (all.size() >= capacity) {
    return ResourceExhaustedError(
        "the prompt has " + std::to_string(all.size()) +
        " tokens and the context " + std::to_string(capacity) +
        "; raise --ctx or shorten the conversation");
  }

  // What the session already holds exactly. The last token is always decoded,
  // for its logits.
  size_t common = std::min(ExactPrefix(all), all.size() - 1);
  const size_t block_begin = plan.history.size();
  const size_t block_end = block_begin + plan.block.size();
  const bool prefix_allowed =
      options.tier == Tier::kAuto || options.tier == Tier::kExactPrefix;
  // A block held only in part is no exact prefix (blocks of one frame all begin
  // alike): the other tiers begin where it begins.
  if (!prefix_allowed || (options.tier == Tier::kAuto && common < block_end &&
                          SplicingReady().ok())) {
    common = std::min(common, block_begin);
  }
  NEXUS_RETURN_IF_ERROR(TruncateTo(common));
  common = tokens_.size();
  report.reused_tokens = static_cast<int>(common);

  const bool block_done = plan.block.empty() || common >= block_end;
  if (!plan.block.empty() && block_done) {
    report.tier = Tier::kExactPrefix;
  } else if (options.tier == Tier::kExactPrefix) {
    report.reasons.push_back(
        "exact-prefix: the session doesn't hold this schema behind this "
        "conversation");
  }

  // A tier that fails must not fail the request: the reason is kept and the
  // text is decoded.
  if (!block_done && common <= block_begin && options.tier != Tier::kPrefill &&
      options.tier != Tier::kExactPrefix) {
    const Status ready = SplicingReady();
    if (!ready.ok()) {
      report.reasons.push_back(ready.message());
    } else {
      NEXUS_RETURN_IF_ERROR(
          Decode(std::span(plan.history).subspan(tokens_.size()),
                 llm::Logits::kNone, &report));
      for (const Tier tier : {Tier::kExactVariant, Tier::kSplice}) {
        if (options.tier != Tier::kAuto && options.tier != tier) continue;
        const Status brought = tier == Tier::kExactVariant
                                   ? TryVariant(plan.block, &report)
                                   : TrySplice(plan, options, &report);
        if (brought.ok()) {
          report.tier = tier;
          break;
        }
        if (brought.code() == StatusCode::kCancelled) return brought;
        report.reasons.push_back(brought.message());
      }
    }
  }

  // One decode for all that is left: batches are cheaper whole.
  NEXUS_RETURN_IF_ERROR(Decode(std::span(all).subspan(tokens_.size()),
                               llm::Logits::kLast, &report));
  block_decoded_ = report.tier == Tier::kPrefill && !plan.block.empty();
  return report;
}

bool Session::HoldsBlock(const PromptPlan& plan) const {
  const size_t begin = plan.history.size();
  const size_t end = begin + plan.block.size();
  return can_remember() && begin > 0 && begin < end && exact_count_ >= end &&
         tokens_.size() >= end &&
         std::equal(plan.history.begin(), plan.history.end(),
                    tokens_.begin()) &&
         std::equal(plan.block.begin(), plan.block.end(),
                    tokens_.begin() + static_cast<std::ptrdiff_t>(begin));
}

Result<std::shared_ptr<const kv::KvBlock>> Session::Remember(
    const PromptPlan& plan, const schema::ToolSchema& tool) {
  if (!HoldsBlock(plan)) return std::shared_ptr<const kv::KvBlock>();
  compile::LearnRequest request = LearnRequestFor(plan, tool);
  request.recipe = ConversationRecipeName(engine_->planner().frame());
  NEXUS_ASSIGN_OR_RETURN(auto block,
                         compile::KeepSample(engine_->CompileEnvironmentFor(
                                                 kv::BlockKind::kSplice,
                                                 context_.get(), access_.get()),
                                             request));
  conversation_.Keep(plan.history, block);
  return block;
}

Result<compile::LearnReport> Session::Learn(const PromptPlan& plan,
                                            const schema::ToolSchema& tool) {
  compile::LearnReport nothing;
  if (!block_decoded_ || !HoldsBlock(plan)) return nothing;
  block_decoded_ = false;
  compile::LearnRequest request = LearnRequestFor(plan, tool);
  // The block that a splice would take is the one to improve.
  const auto best = engine_->FindSplice(plan.block);
  request.recipe = best.ok()
                       ? (*best)->metadata().recipe
                       : compile::TrafficRecipeName(engine_->planner().frame());
  auto report = compile::LearnBlock(
      engine_->CompileEnvironmentFor(kv::BlockKind::kSplice, context_.get(),
                                     access_.get()),
      request);
  if (report.status().code() == StatusCode::kNotFound) {
    nothing.reason = report.status().message();
    return nothing;
  }
  if (report.ok()) {
    NEXUS_RETURN_IF_ERROR(LiftDemotionIfLearned(
        *engine_->store(), engine_->SchemaKey(plan.block), report->samples));
  }
  return report;
}

Status Session::StoreVariant(const PromptPlan& plan,
                             const schema::ToolSchema& tool) {
  const size_t begin = plan.history.size();
  const size_t end = begin + plan.block.size();
  if (!SplicingReady().ok() || !HasEngineAttention() || plan.block.empty() ||
      exact_count_ < end || tokens_.size() < end) {
    return Status::Ok();
  }
  if (engine_->store()->Contains(
          engine_->VariantKey(plan.history, plan.block))) {
    return Status::Ok();
  }
  return compile::MakeVariant(
             engine_->CompileEnvironmentFor(kv::BlockKind::kVariant,
                                            context_.get(), access_.get()),
             {.sequence = kConversation,
              .preceding = plan.history,
              .tokens = plan.block,
              .tool_name = schema::ToolId(tool),
              .schema_hash = ToHex(schema::SchemaHash(tool))})
      .status();
}

bool Session::HasEngineAttention() const {
  return context_->options().flash_attention ==
         engine_->attention().flash_attention;
}

}  // namespace nexus::engine
