#include "nexus/engine/compose_bench.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/engine/compose_call.h"
#include "nexus/engine/fidelity.h"
#include "nexus/engine/session.h"
#include "nexus/route/bm25.h"

namespace nexus::engine {
namespace {

struct Verdict {
  bool choice = false;
  bool args = false;  // of questions whose arguments are known
};

Verdict Judge(const ComposeQuery& query, const schema::ToolSchema& tool,
              const ListCall& call) {
  const auto is = [&](const std::string& name) {
    return name == tool.name || name == schema::ToolId(tool);
  };
  Verdict verdict;
  verdict.choice = std::any_of(query.gold.begin(), query.gold.end(), is);
  verdict.args = is(query.gold.front()) && !query.accepted_args.is_null() &&
                 ArgumentsAccepted(call.arguments, query.accepted_args);
  return verdict;
}

// The reference's log-probabilities of one question.
struct Reference {
  ListCall call;
  std::vector<std::vector<float>> rows;
  Verdict verdict;
};

struct Tally {
  ComposeArmResult result;
  std::vector<double> kl;
  double first_kl = 0;
  double first_top1 = 0;
  int firsts = 0;
  int only_reference = 0;  // right
  int only_arm = 0;
  int args_only_reference = 0;
  int args_only_arm = 0;
  std::vector<double> differences;
  std::vector<double> args_differences;
  double spliced = 0;
  double recomputed = 0;
};

size_t ArgMax(std::span<const float> values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) -
                             values.begin());
}

class Bench {
 public:
  Bench(const Engine& engine, const ComposeBenchOptions& options)
      : engine_(engine), options_(options) {}

  Result<ComposeBenchResult> Run() {
    NEXUS_ASSIGN_OR_RETURN(
        const std::vector<ComposeList> lists,
        MakeComposeLists(options_.tools, options_.queries,
                         {.blocks = options_.blocks, .queries = options_.n}));
    NEXUS_ASSIGN_OR_RETURN(session_, Session::Create(&engine_));
    for (const ComposeArm& arm : options_.arms) {
      Tally tally;
      tally.result.name = arm.name;
      tallies_.push_back(std::move(tally));
    }
    for (const ComposeList& list : lists) {
      total_ +=
          static_cast<int>(list.queries.size() * (options_.arms.size() + 1));
    }
    NEXUS_RETURN_IF_ERROR(CompileForAll(lists));
    for (const ComposeList& list : lists) {
      NEXUS_RETURN_IF_ERROR(AskList(list));
    }
    ComposeBenchResult result;
    result.blocks = options_.blocks;
    result.lists = static_cast<int>(lists.size());
    result.list_tokens =
        list_tokens_ / static_cast<double>(std::max<size_t>(lists.size(), 1));
    const auto& of_reference = reference_tally_;
    result.reference = Finished(of_reference);
    result.reference.name = "prefill";
    for (const Tally& tally : tallies_) result.arms.push_back(Finished(tally));
    result.notes.assign(notes_.begin(), notes_.end());
    return result;
  }

 private:
  // Recipes that don't depend on the list: their contexts are decoded once.
  Status CompileForAll(std::span<const ComposeList> lists) {
    std::set<size_t> used;
    for (const ComposeList& list : lists) {
      used.insert(list.tools.begin(), list.tools.end());
    }
    std::vector<schema::ToolSchema> tools;
    for (const size_t i : used) tools.push_back(options_.tools[i]);
    for (const ComposeArm& arm : options_.arms) {
      if (arm.neighbours == ListNeighbours::kGiven) continue;
      NEXUS_RETURN_IF_ERROR(Compile(arm, tools));
    }
    return Status::Ok();
  }

  Status AskList(const ComposeList& list) {
    std::vector<schema::ToolSchema> tools;
    for (const size_t i : list.tools) tools.push_back(options_.tools[i]);
    for (const ComposeArm& arm : options_.arms) {
      if (arm.neighbours == ListNeighbours::kGiven) {
        NEXUS_RETURN_IF_ERROR(Compile(arm, tools));
      }
    }
    NEXUS_ASSIGN_OR_RETURN(
        const PromptPlan plan,
        engine_.planner().PlanListBlock(compile::kDefaultSystemPrompt, tools));
    list_tokens_ += static_cast<double>(plan.TokenCount());
    NEXUS_ASSIGN_OR_RETURN(
        const auto caller,
        ListCaller::Create(&engine_, tools, options_.max_argument_tokens));

    std::vector<Reference> references;
    NEXUS_RETURN_IF_ERROR(
        LayDown(plan, {.tier = Tier::kExactPrefix}, &reference_tally_));
    for (const size_t query : list.queries) {
      NEXUS_RETURN_IF_ERROR(Step("prefill"));
      NEXUS_ASSIGN_OR_RETURN(Reference reference,
                             AskReference(*caller, plan.TokenCount(), tools,
                                          options_.queries[query]));
      references.push_back(std::move(reference));
    }
    for (size_t arm = 0; arm < options_.arms.size(); ++arm) {
      for (size_t i = 0; i < list.queries.size(); ++i) {
        NEXUS_RETURN_IF_ERROR(Step(options_.arms[arm].name));
        const ComposeQuery& query = options_.queries[list.queries[i]];
        if (i == 0 || options_.arms[arm].depends_on_question()) {
          NEXUS_RETURN_IF_ERROR(
              LayDown(plan, OptionsFor(options_.arms[arm], tools, query),
                      &tallies_[arm]));
        }
        NEXUS_RETURN_IF_ERROR(AskArm(*caller, plan.TokenCount(), tools, query,
                                     references[i], &tallies_[arm]));
      }
    }
    return Status::Ok();
  }

  Status Step(const std::string& name) {
    if (options_.cancel != nullptr && options_.cancel->load()) {
      return CancelledError("interrupted after " + std::to_string(done_) +
                            " of " + std::to_string(total_) + " calls");
    }
    if (options_.progress) options_.progress(done_, total_, name);
    ++done_;
    return Status::Ok();
  }

  CompileListOptions RecipeFor(const ComposeArm& arm) const {
    CompileListOptions options;
    options.neighbours = arm.neighbours;
    options.samples = options_.samples;
    options.list_tools = std::max(2, options_.blocks);
    options.cancel = options_.cancel;
    return options;
  }

  Status Compile(const ComposeArm& arm,
                 std::span<const schema::ToolSchema> tools) {
    if (arm.is_exact) return Status::Ok();
    if (options_.progress) options_.progress(done_, total_, "compile");
    NEXUS_ASSIGN_OR_RETURN(const auto report,
                           CompileList(engine_, tools, RecipeFor(arm)));
    for (const auto& failure : report.failures) {
      notes_.insert(failure.tool_name + ": " + failure.status.message());
    }
    return Status::Ok();
  }

  PrepareOptions OptionsFor(const ComposeArm& arm,
                            std::span<const schema::ToolSchema> tools,
                            const ComposeQuery& query) const {
    PrepareOptions options;
    if (arm.is_exact) {
      options.tier = Tier::kExactPrefix;
      return options;
    }
    options.tier = Tier::kSplice;
    options.policy = arm.share > 0 ? kv::RepairPolicy::kSensitivity
                                   : kv::RepairPolicy::kNone;
    options.list_recipe = ListRecipeName(engine_, tools, RecipeFor(arm));
    options.block_shares.assign(tools.size(), arm.share);
    if (arm.decode_gold) {
      for (size_t i = 0; i < tools.size(); ++i) {
        if (Judge(query, tools[i], {}).choice) options.block_shares[i] = 1;
      }
    }
    if (arm.decode_top > 0) {
      std::vector<std::string> texts;
      for (const schema::ToolSchema& tool : tools) {
        texts.push_back(schema::SearchText(tool));
      }
      const std::vector<float> scores =
          route::Bm25Index(texts).Score(query.query);
      std::vector<size_t> order(tools.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
        return scores[a] > scores[b];
      });
      order.resize(std::min(order.size(), static_cast<size_t>(arm.decode_top)));
      for (const size_t i : order) options.block_shares[i] = 1;
    }
    return options;
  }

  // Anew each time: a list that the session held would not be measured.
  Status LayDown(const PromptPlan& plan, const PrepareOptions& options,
                 Tally* tally) {
    NEXUS_RETURN_IF_ERROR(session_->TruncateTo(0));
    const auto begin = Clock::Monotonic().Now();
    NEXUS_ASSIGN_OR_RETURN(const TierReport report,
                           session_->Prepare(plan, options));
    tally->result.list_ms += Milliseconds(Clock::Monotonic().Now() - begin);
    ++tally->result.laid_down;
    tally->spliced += report.spliced_tokens;
    tally->recomputed += report.recomputed_tokens;
    if (options.tier == Tier::kSplice) {
      for (const std::string& reason : report.reasons) {
        if (reason.starts_with("splice:")) notes_.insert(reason);
      }
    }
    return Status::Ok();
  }

  Result<Reference> AskReference(ListCaller& caller, size_t list_end,
                                 std::span<const schema::ToolSchema> tools,
                                 const ComposeQuery& query) {
    Reference reference;
    const auto keep = [&](size_t position, std::span<const float> logits) {
      if (position >= static_cast<size_t>(options_.kl_positions)) return;
      if (reference.rows.size() <= position)
        reference.rows.resize(position + 1);
      reference.rows[position].resize(logits.size());
      LogSoftmax(logits, reference.rows[position]);
    };
    NEXUS_ASSIGN_OR_RETURN(
        reference.call,
        caller.Call(*session_, list_end, query.query, nullptr, keep));
    reference.verdict =
        Judge(query, tools[reference.call.tool], reference.call);
    Count(query, reference.verdict, &reference_tally_);
    return reference;
  }

  Status AskArm(ListCaller& caller, size_t list_end,
                std::span<const schema::ToolSchema> tools,
                const ComposeQuery& query, const Reference& reference,
                Tally* tally) {
    std::vector<float> row;
    const auto compare = [&](size_t position, std::span<const float> logits) {
      if (position >= reference.rows.size() ||
          reference.rows[position].empty()) {
        return;
      }
      // Without a draft only the first position has the same past.
      if (position > 0 && !reference.call.is_aligned) return;
      row.resize(logits.size());
      LogSoftmax(logits, row);
      const double kl = KlDivergence(reference.rows[position], row);
      tally->kl.push_back(kl);
      if (position == 0) {
        tally->first_kl += kl;
        tally->first_top1 +=
            ArgMax(row) == ArgMax(reference.rows[0]) ? 1.0 : 0.0;
        ++tally->firsts;
      }
    };
    NEXUS_ASSIGN_OR_RETURN(const ListCall call,
                           caller.Call(*session_, list_end, query.query,
                                       &reference.call, compare));
    const Verdict verdict = Judge(query, tools[call.tool], call);
    Count(query, verdict, tally);
    const bool same_choice = call.tool == reference.call.tool;
    tally->result.same_choice += same_choice ? 1 : 0;
    tally->result.same +=
        same_choice && call.arguments_text == reference.call.arguments_text;
    const Verdict& other = reference.verdict;
    tally->only_reference += other.choice && !verdict.choice ? 1 : 0;
    tally->only_arm += verdict.choice && !other.choice ? 1 : 0;
    tally->differences.push_back((verdict.choice ? 1.0 : 0.0) -
                                 (other.choice ? 1.0 : 0.0));
    if (!query.accepted_args.is_null()) {
      tally->args_only_reference += other.args && !verdict.args ? 1 : 0;
      tally->args_only_arm += verdict.args && !other.args ? 1 : 0;
      tally->args_differences.push_back((verdict.args ? 1.0 : 0.0) -
                                        (other.args ? 1.0 : 0.0));
    }
    return Status::Ok();
  }

  static void Count(const ComposeQuery& query, const Verdict& verdict,
                    Tally* tally) {
    ++tally->result.n;
    tally->result.n_args += query.accepted_args.is_null() ? 0 : 1;
    tally->result.choice_right += verdict.choice ? 1 : 0;
    tally->result.args_right += verdict.args ? 1 : 0;
  }

  static ComposeArmResult Finished(const Tally& tally) {
    ComposeArmResult result = tally.result;
    if (!tally.kl.empty()) {
      std::vector<double> sorted = tally.kl;
      std::sort(sorted.begin(), sorted.end());
      result.kl_mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) /
                       static_cast<double>(sorted.size());
      result.kl_p99 = sorted[(sorted.size() - 1) * 99 / 100];
    }
    if (tally.firsts > 0) {
      result.first_kl = tally.first_kl / tally.firsts;
      result.first_top1 = tally.first_top1 / tally.firsts;
    }
    if (tally.spliced + tally.recomputed > 0) {
      result.recompute_share =
          tally.recomputed / (tally.spliced + tally.recomputed);
    }
    if (result.laid_down > 0) result.list_ms /= result.laid_down;
    result.mcnemar_p = McNemarExact(tally.only_reference, tally.only_arm);
    result.args_mcnemar_p =
        McNemarExact(tally.args_only_reference, tally.args_only_arm);
    result.choice_ci95 = WilsonInterval(result.choice_right, result.n);
    result.args_ci95 = WilsonInterval(result.args_right, result.n_args);
    result.difference_ci95 = BootstrapMean(tally.differences);
    result.args_difference_ci95 = BootstrapMean(tally.args_differences);
    return result;
  }

  const Engine& engine_;
  const ComposeBenchOptions& options_;
  std::unique_ptr<Session> session_;
  Tally reference_tally_;
  std::vector<Tally> tallies_;  // [arm]
  std::set<std::string> notes_;
  double list_tokens_ = 0;
  int done_ = 0;
  int total_ = 0;
};

}  // namespace

Result<ComposeArm> ParseComposeArm(std::string_view text) {
  ComposeArm arm;
  arm.name = text;
  if (text == "exact") {
    arm.is_exact = true;
    return arm;
  }
  const auto bad = [&](std::string_view why) {
    return InvalidArgumentError(
        "arm '" + arm.name + "': " + std::string(why) +
        "; expected exact or RECIPE:PERCENT[+gold|+topK] with the recipes "
        "alone, generic, given");
  };
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return bad("no ':'");
  const auto neighbours = ParseListNeighbours(text.substr(0, colon));
  if (!neighbours.has_value()) return bad("no such recipe");
  arm.neighbours = *neighbours;
  std::string_view rest = text.substr(colon + 1);
  const size_t plus = std::min(rest.find('+'), rest.size());
  const std::string_view percent_text = rest.substr(0, plus);
  int percent = -1;
  const auto [end, error] = std::from_chars(
      percent_text.data(), percent_text.data() + percent_text.size(), percent);
  if (error != std::errc() ||
      end != percent_text.data() + percent_text.size() || percent < 0 ||
      percent > 100) {
    return bad("the percentage isn't one from 0 to 100");
  }
  arm.share = percent / 100.0;
  if (plus == rest.size()) return arm;
  rest = rest.substr(plus + 1);
  if (rest == "gold") {
    arm.decode_gold = true;
    return arm;
  }
  if (!rest.starts_with("top")) return bad("no such addition");
  rest.remove_prefix(3);
  const auto [top_end, top_error] =
      std::from_chars(rest.data(), rest.data() + rest.size(), arm.decode_top);
  if (top_error != std::errc() || top_end != rest.data() + rest.size() ||
      arm.decode_top < 1) {
    return bad("topK needs a number from 1 on");
  }
  return arm;
}

Result<ComposeBenchResult> RunComposeBench(const Engine& engine,
                                           const ComposeBenchOptions& options) {
  NEXUS_RETURN_IF_ERROR(engine.splice_status());
  NEXUS_RETURN_IF_ERROR(engine.store_status());
  return Bench(engine, options).Run();
}

}  // namespace nexus::engine
