#include "nexus/engine/list_prepare.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "nexus/base/clock.h"
#include "nexus/compile/block_compiler.h"
#include "nexus/engine/composition.h"
#include "nexus/engine/list_compile.h"
#include "nexus/kv/splicer.h"

namespace nexus::engine {
namespace {

using llm::Token;

double Since(std::chrono::nanoseconds begin) {
  return Milliseconds(Clock::Monotonic().Now() - begin);
}

// What is restored and stored as one: the system turn's beginning with the
// frame's prefix, so that a fresh session decodes neither, and each further
// piece of the block.
struct Element {
  size_t begin = 0;  // tokens of the whole plan
  size_t end = 0;
  const PlanPiece* piece = nullptr;
};

std::vector<Element> ElementsOf(const PromptPlan& plan) {
  std::vector<Element> elements;
  const size_t offset = plan.history.size();
  for (const PlanPiece& piece : plan.pieces) {
    Element element{offset + piece.begin, offset + piece.end, &piece};
    if (elements.empty()) element.begin = 0;
    elements.push_back(element);
  }
  return elements;
}

}  // namespace

class ListPreparer {
 public:
  ListPreparer(Session& session, const PromptPlan& plan,
               const PrepareOptions& options)
      : session_(session),
        plan_(plan),
        options_(options),
        all_(AllTokens(plan)),
        elements_(ElementsOf(plan)) {}

  Result<TierReport> Run() {
    NEXUS_RETURN_IF_ERROR(Check());
    const size_t list_end = elements_.back().end;
    const size_t common = Common();
    // A piece that is held only in part is brought in whole.
    size_t keep = common >= list_end ? common : 0;
    size_t next = 0;
    while (next < elements_.size() && elements_[next].end <= common) {
      keep = std::max(keep, elements_[next++].end);
    }
    if (options_.tier == Tier::kPrefill) {
      keep = std::min(common, plan_.history.size());
    }
    NEXUS_RETURN_IF_ERROR(session_.TruncateTo(keep));
    if (session_.tokens_.size() < keep) next = 0;  // recurrent: began anew
    report_.reused_tokens = static_cast<int>(session_.tokens_.size());
    if (options_.tier != Tier::kPrefill) {
      report_.tier = Tier::kExactPrefix;
      NEXUS_RETURN_IF_ERROR(BringElements(next));
    }
    NEXUS_RETURN_IF_ERROR(
        session_.Decode(std::span(all_).subspan(session_.tokens_.size()),
                        llm::Logits::kLast, &report_));
    return std::move(report_);
  }

  Status Store() {
    if (!session_.SplicingReady().ok() || !session_.HasEngineAttention()) {
      return Status::Ok();
    }
    const Engine& engine = *session_.engine_;
    const std::span<const Token> all(all_);
    for (const Element& element : elements_) {
      if (element.end > session_.exact_count_ ||
          !std::equal(all.begin(), all.begin() + static_cast<int>(element.end),
                      session_.tokens_.begin())) {
        return Status::Ok();
      }
      const auto preceding = all.first(element.begin);
      const auto tokens =
          all.subspan(element.begin, element.end - element.begin);
      if (engine.store()->Contains(engine.VariantKey(preceding, tokens))) {
        continue;
      }
      NEXUS_RETURN_IF_ERROR(
          compile::MakeVariant(
              engine.CompileEnvironmentFor(kv::BlockKind::kVariant,
                                           session_.context_.get(),
                                           session_.access_.get()),
              {.sequence = kConversation,
               .preceding = preceding,
               .tokens = tokens,
               .tool_name = element.piece->tool_name,
               .schema_hash = element.piece->schema_hash})
              .status());
    }
    return Status::Ok();
  }

 private:
  Status Check() const {
    const auto capacity =
        static_cast<size_t>(session_.context_->options().context_tokens);
    if (all_.size() >= capacity) {
      return ResourceExhaustedError(
          "the prompt with its list of tools has " +
          std::to_string(all_.size()) + " tokens and the context " +
          std::to_string(capacity) + "; raise --ctx or give fewer tools");
    }
    size_t next = 0;
    size_t tools = 0;
    for (const PlanPiece& piece : plan_.pieces) {
      if (piece.begin != next || piece.end <= piece.begin) break;
      next = piece.end;
      tools += piece.is_tool() ? 1 : 0;
    }
    if (next != plan_.block.size() ||
        plan_.pieces.back().end != plan_.block.size()) {
      return InvalidArgumentError("list: pieces cover " + std::to_string(next) +
                                  " tokens of a block of " +
                                  std::to_string(plan_.block.size()));
    }
    if (!options_.block_shares.empty() &&
        options_.block_shares.size() != tools) {
      return InvalidArgumentError(
          "list: " + std::to_string(options_.block_shares.size()) +
          " shares for " + std::to_string(tools) + " tools");
    }
    return Status::Ok();
  }

  // What the session holds exactly of the plan. The last token is always
  // decoded, for its logits.
  size_t Common() const {
    return std::min(session_.ExactPrefix(all_), all_.size() - 1);
  }

  Status BringElements(size_t first) {
    const Status ready = session_.SplicingReady();
    const bool wants_store = options_.tier != Tier::kExactPrefix;
    if (wants_store && !ready.ok()) Note(ready);
    const bool may_restore =
        ready.ok() && wants_store && options_.tier != Tier::kSplice;
    const bool may_splice = ready.ok() && (options_.tier == Tier::kSplice ||
                                           options_.tier == Tier::kAuto);
    size_t tool = static_cast<size_t>(std::count_if(
        elements_.begin(), elements_.begin() + static_cast<int>(first),
        [](const Element& element) { return element.piece->is_tool(); }));
    bool is_exact = true;
    int decoded = 0;
    for (size_t i = first; i < elements_.size(); ++i) {
      const Element& element = elements_[i];
      const size_t this_tool = tool;
      tool += element.piece->is_tool() ? 1 : 0;
      const auto tokens = std::span<const Token>(all_).subspan(
          element.begin, element.end - element.begin);
      // Of a plan without a question the list's last token is the last, and its
      // logits are wanted.
      const bool is_last = element.end == all_.size();
      if (is_exact && may_restore && !is_last) {
        const Status restored = session_.TryVariant(tokens, &report_);
        if (restored.ok()) {
          if (report_.tier == Tier::kExactPrefix) {
            report_.tier = Tier::kExactVariant;
          }
          continue;
        }
        if (restored.code() == StatusCode::kCancelled) return restored;
        if (restored.code() != StatusCode::kNotFound) Note(restored);
      }
      if (may_splice && element.piece->is_tool()) {
        const Status spliced = Splice(tokens, *element.piece, this_tool);
        if (spliced.ok()) {
          is_exact = false;
          report_.tier = Tier::kSplice;
          continue;
        }
        if (spliced.code() == StatusCode::kCancelled) return spliced;
        Note(spliced);
      }
      NEXUS_RETURN_IF_ERROR(session_.Decode(
          tokens, is_last ? llm::Logits::kLast : llm::Logits::kNone, &report_));
      ++decoded;
      if (report_.tier != Tier::kSplice) report_.tier = Tier::kPrefill;
    }
    if (decoded > 0) {
      report_.reasons.push_back(
          "list: " + std::to_string(decoded) + " of " +
          std::to_string(elements_.size()) +
          " pieces neither in the session nor in the store, decoded");
    }
    return Status::Ok();
  }

  // What blocks are spliced, and how.
  struct Way {
    std::string recipe;  // empty: the best that there is
    kv::RepairPolicy policy = kv::RepairPolicy::kSensitivity;
    double share = -1;
    std::span<const double> shares;  // of each tool, instead
  };

  // As the caller wants it, or as the profile has measured it.
  Result<Way> ChooseWay() const {
    if (options_.tier == Tier::kSplice) {
      return Way{
          .recipe = options_.list_recipe,
          .policy = options_.policy.value_or(kv::RepairPolicy::kSensitivity),
          .share = options_.recompute_share,
          .shares = options_.block_shares};
    }
    CompositionPlace place;
    place.budget = options_.budget;
    place.tools = static_cast<int>(std::count_if(
        elements_.begin(), elements_.end(),
        [](const Element& element) { return element.piece->is_tool(); }));
    place.tokens = static_cast<int>(elements_.back().end);
    std::span<const CompositionRow> rows;
    if (const RepairProfile* profile = session_.engine_->profile();
        profile != nullptr) {
      rows = profile->composition;
      place.noise_kl = profile->noise_kl;
    }
    NEXUS_ASSIGN_OR_RETURN(const CompositionRow* row,
                           FindComposition(rows, place));
    return Way{.recipe = row->recipe,
               .policy = row->share > 0 ? kv::RepairPolicy::kSensitivity
                                        : kv::RepairPolicy::kNone,
               .share = row->share};
  }

  Status Splice(std::span<const Token> tokens, const PlanPiece& piece,
                size_t tool) {
    if (!way_.has_value()) way_.emplace(ChooseWay());
    if (!way_->ok()) return way_->status();
    const Way& way = **way_;
    const auto begin = Clock::Monotonic().Now();
    if (!finder_.has_value()) finder_.emplace(session_.engine_, way.recipe);
    NEXUS_ASSIGN_OR_RETURN(const auto block, finder_->Find(tokens, piece));
    report_.lookup_ms += Since(begin);
    const auto position = static_cast<llm::Position>(session_.tokens_.size());
    const double share = way.shares.empty() ? way.share : way.shares[tool];
    const kv::RepairPolicy policy = way.policy;
    kv::PlanRequest request;
    request.policy = share >= 1 ? kv::RepairPolicy::kFull : policy;
    request.token_count = static_cast<int>(tokens.size());
    request.depth = position;
    request.share = share;
    request.sensitivity = block->sensitivity();
    NEXUS_ASSIGN_OR_RETURN(const kv::RecomputePlan repair,
                           kv::PlanRecompute(request));
    NEXUS_ASSIGN_OR_RETURN(
        const kv::SpliceResult spliced,
        kv::Splice(*session_.context_, *session_.access_,
                   session_.engine_->rope(), *block, repair,
                   {.sequence = kConversation, .position = position}));
    report_.policy = kv::RepairPolicyName(policy);
    report_.write_ms += spliced.write_ms;
    report_.repair_ms += spliced.repair_ms;
    report_.recomputed_tokens += spliced.recomputed_tokens;
    report_.spliced_tokens += spliced.spliced_tokens;
    report_.decode_runs += repair.decode_calls;
    report_.staging_bytes =
        std::max(report_.staging_bytes, spliced.staging_bytes);
    report_.block_bytes += block->file_bytes();
    report_.block_file = block->path();
    const int blocks = report_.spliced_tokens + report_.recomputed_tokens;
    report_.recompute_share =
        static_cast<double>(report_.recomputed_tokens) / blocks;
    // exact_count_ stays where the first block begins.
    session_.tokens_.insert(session_.tokens_.end(), tokens.begin(),
                            tokens.end());
    return Status::Ok();
  }

  // One line for each distinct reason: twenty tools fail alike.
  void Note(const Status& status) {
    if (noted_.insert(status.message()).second) {
      report_.reasons.push_back(status.message());
    }
  }

  Session& session_;
  const PromptPlan& plan_;
  const PrepareOptions& options_;
  const std::vector<Token> all_;
  const std::vector<Element> elements_;
  std::optional<Result<Way>> way_;  // chosen when a block is wanted
  std::optional<ListBlockFinder> finder_;
  std::set<std::string> noted_;
  TierReport report_;
};

Result<TierReport> PrepareList(Session& session, const PromptPlan& plan,
                               const PrepareOptions& options) {
  if (plan.pieces.empty()) {
    return InvalidArgumentError("list: the plan isn't cut into pieces");
  }
  return ListPreparer(session, plan, options).Run();
}

Status StoreList(Session& session, const PromptPlan& plan) {
  return ListPreparer(session, plan, {}).Store();
}

}  // namespace nexus::engine
