#include "nexus/engine/compose_bench.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/base/hash.h"
#include "nexus/engine/compose_call.h"
#include "nexus/engine/fidelity.h"
#include "nexus/engine/session.h"
#include "nexus/route/bm25.h"

namespace nexus::engine {
namespace {

// The rows of the reference are kept for the arms, of so many questions: some
// 15 MB each with a vocabulary of 150,000.
constexpr size_t kQuestionsAtOnce = 32;
// A recipe's contexts (a few thousand tokens) are decoded for so many tools at
// a time: for every list alone they would cost more than its blocks, and for
// all of them nothing would be asked for an hour.
constexpr size_t kToolsCompiledAtOnce = 40;

struct Verdict {
  bool choice = false;
  std::optional<bool> args;  // of questions whose arguments are known
};

Verdict Judge(const ComposeQuery& query, const schema::ToolSchema& tool,
              const ListCall& call) {
  const auto is = [&](const std::string& name) {
    return name == tool.name || name == schema::ToolId(tool);
  };
  Verdict verdict;
  verdict.choice = std::any_of(query.gold.begin(), query.gold.end(), is);
  if (!query.accepted_args.is_null()) {
    verdict.args = is(query.gold.front()) &&
                   ArgumentsAccepted(call.arguments, query.accepted_args);
  }
  return verdict;
}

size_t ArgMax(std::span<const float> values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) -
                             values.begin());
}

std::string ShortHash(Sha256* hash) {
  return ToHex(hash->Finish()).substr(0, 16);
}

void AddQuestion(const ComposeQuery& query, Sha256* hash) {
  hash->Update(DumpJson({query.query, query.gold, query.accepted_args}));
}

CompileListOptions RecipeFor(const ComposeArm& arm,
                             const ComposeBenchOptions& options) {
  CompileListOptions recipe;
  recipe.neighbours = arm.neighbours;
  recipe.samples = options.samples;
  recipe.list_tools = std::max(2, options.blocks);
  recipe.cancel = options.cancel;
  return recipe;
}

// A list of the work, with all that its questions have in common.
struct AskedList {
  std::vector<schema::ToolSchema> tools;
  std::vector<const ComposeQuery*> queries;
  std::string id;
  std::vector<std::string> question_ids;  // [query]
};

class Bench {
 public:
  Bench(const Engine& engine, const ComposeBenchOptions& options,
        ComposeLog* log)
      : engine_(engine), options_(options), log_(log) {}

  Status Run() {
    NEXUS_ASSIGN_OR_RETURN(const std::vector<ComposeList> drawn,
                           MakeComposeLists(options_.tools, options_.queries,
                                            {.blocks = options_.blocks,
                                             .queries = options_.n,
                                             .part = options_.part,
                                             .parts = options_.parts}));
    std::vector<AskedList> lists;
    for (const ComposeList& list : drawn) {
      lists.push_back(Asked(list));
      total_ +=
          static_cast<int>(list.queries.size() * (options_.arms.size() + 1));
    }
    NEXUS_ASSIGN_OR_RETURN(session_, Session::Create(&engine_));
    size_t compiled = 0;
    for (size_t i = 0; i < lists.size(); ++i) {
      if (IsWhole(lists[i])) {
        done_ += static_cast<int>(lists[i].queries.size() *
                                  (options_.arms.size() + 1));
        continue;
      }
      if (i >= compiled) {
        NEXUS_ASSIGN_OR_RETURN(compiled, CompileAhead(lists, i));
      }
      NEXUS_RETURN_IF_ERROR(AskList(lists[i]));
    }
    return Status::Ok();
  }

 private:
  AskedList Asked(const ComposeList& list) const {
    AskedList asked;
    Sha256 of_tools;
    for (const size_t i : list.tools) {
      asked.tools.push_back(options_.tools[i]);
      of_tools.Update(schema::ModelText(options_.tools[i]) + "\n");
    }
    asked.id = ShortHash(&of_tools);
    for (const size_t i : list.queries) {
      asked.queries.push_back(&options_.queries[i]);
      Sha256 of_question;
      AddQuestion(options_.queries[i], &of_question);
      asked.question_ids.push_back(ShortHash(&of_question));
    }
    return asked;
  }

  bool Has(const AskedList& list, size_t question, std::string_view arm) const {
    ComposeTrial trial;
    trial.list = list.id;
    trial.question = list.question_ids[question];
    trial.arm = arm;
    return log_->Find(trial.Key()) != nullptr;
  }

  bool HasAllArms(const AskedList& list, size_t question) const {
    return Has(list, question, kComposeReference) &&
           std::all_of(options_.arms.begin(), options_.arms.end(),
                       [&](const ComposeArm& arm) {
                         return Has(list, question, arm.name);
                       });
  }

  bool IsWhole(const AskedList& list) const {
    for (size_t i = 0; i < list.queries.size(); ++i) {
      if (!HasAllArms(list, i)) return false;
    }
    return true;
  }

  // Recipes that don't depend on the list: their contexts are decoded once for
  // the lists from `first` to the returned one.
  Result<size_t> CompileAhead(std::span<const AskedList> lists, size_t first) {
    std::set<std::string> known;
    std::vector<schema::ToolSchema> tools;
    size_t end = first;
    while (end < lists.size() &&
           (end == first || tools.size() < kToolsCompiledAtOnce)) {
      if (!IsWhole(lists[end])) {
        for (const schema::ToolSchema& tool : lists[end].tools) {
          if (known.insert(schema::ModelText(tool)).second) {
            tools.push_back(tool);
          }
        }
      }
      ++end;
    }
    for (const ComposeArm& arm : options_.arms) {
      if (arm.neighbours == ListNeighbours::kGiven) continue;
      NEXUS_RETURN_IF_ERROR(Compile(arm, tools));
    }
    return end;
  }

  Status AskList(const AskedList& list) {
    for (const ComposeArm& arm : options_.arms) {
      if (arm.neighbours == ListNeighbours::kGiven) {
        NEXUS_RETURN_IF_ERROR(Compile(arm, list.tools));
      }
    }
    NEXUS_ASSIGN_OR_RETURN(const PromptPlan plan,
                           engine_.planner().PlanListBlock(
                               compile::kDefaultSystemPrompt, list.tools));
    NEXUS_ASSIGN_OR_RETURN(
        const auto caller,
        ListCaller::Create(&engine_, list.tools, options_.max_argument_tokens));
    for (size_t first = 0; first < list.queries.size();
         first += kQuestionsAtOnce) {
      const size_t end =
          std::min(first + kQuestionsAtOnce, list.queries.size());
      NEXUS_RETURN_IF_ERROR(AskSome(list, plan, *caller, first, end));
    }
    return Status::Ok();
  }

  // The reference of a question that an arm is missing is asked again, for its
  // rows, though its trial may be there.
  Status AskSome(const AskedList& list, const PromptPlan& plan,
                 ListCaller& caller, size_t first, size_t end) {
    std::map<size_t, Reference> references;  // [question]
    std::optional<ComposeLaying> laying;
    bool is_down = false;
    for (size_t i = first; i < end; ++i) {
      if (HasAllArms(list, i)) {
        ++done_;
        continue;
      }
      NEXUS_RETURN_IF_ERROR(Step(std::string(kComposeReference)));
      if (!is_down) {
        NEXUS_ASSIGN_OR_RETURN(laying,
                               LayDown(plan, {.tier = Tier::kExactPrefix}));
        is_down = true;
      }
      NEXUS_ASSIGN_OR_RETURN(
          Reference reference,
          AskReference(caller, plan.TokenCount(), *list.queries[i]));
      if (!Has(list, i, kComposeReference)) {
        ComposeTrial trial = TrialOf(list, plan, i, reference.call);
        trial.arm = kComposeReference;
        trial.laying = std::exchange(laying, std::nullopt);
        NEXUS_RETURN_IF_ERROR(log_->Append(std::move(trial)));
      }
      references.emplace(i, std::move(reference));
    }
    for (const ComposeArm& arm : options_.arms) {
      NEXUS_RETURN_IF_ERROR(
          AskArm(arm, list, plan, caller, references, first, end));
    }
    return Status::Ok();
  }

  // The reference's call, and its log-probabilities.
  struct Reference {
    ListCall call;
    std::vector<std::vector<float>> rows;
  };

  Status AskArm(const ComposeArm& arm, const AskedList& list,
                const PromptPlan& plan, ListCaller& caller,
                const std::map<size_t, Reference>& references, size_t first,
                size_t end) {
    std::optional<ComposeLaying> laying;
    bool is_down = false;
    for (size_t i = first; i < end; ++i) {
      if (Has(list, i, arm.name)) {
        ++done_;
        continue;
      }
      NEXUS_RETURN_IF_ERROR(Step(arm.name));
      const PrepareOptions options =
          OptionsFor(arm, list.tools, *list.queries[i]);
      if (!is_down || arm.depends_on_question()) {
        NEXUS_ASSIGN_OR_RETURN(laying, LayDown(plan, options));
        is_down = true;
      }
      ComposeTrial compared;
      NEXUS_ASSIGN_OR_RETURN(
          const ListCall call,
          Compare(caller, plan.TokenCount(), *list.queries[i], references.at(i),
                  &compared));
      ComposeTrial trial = TrialOf(list, plan, i, call);
      trial.arm = arm.name;
      trial.recipe = options.list_recipe;
      trial.share = arm.share;
      trial.kl = std::move(compared.kl);
      trial.first_top1 = compared.first_top1;
      trial.laying = std::exchange(laying, std::nullopt);
      NEXUS_RETURN_IF_ERROR(log_->Append(std::move(trial)));
    }
    return Status::Ok();
  }

  ComposeTrial TrialOf(const AskedList& list, const PromptPlan& plan,
                       size_t question, const ListCall& call) const {
    const schema::ToolSchema& tool = list.tools[call.tool];
    const Verdict verdict = Judge(*list.queries[question], tool, call);
    ComposeTrial trial;
    trial.list = list.id;
    trial.question = list.question_ids[question];
    trial.list_tokens = static_cast<int>(plan.TokenCount());
    trial.tool = schema::ToolId(tool);
    trial.arguments = call.arguments_text;
    trial.choice_right = verdict.choice;
    trial.args_right = verdict.args;
    return trial;
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

  Status Compile(const ComposeArm& arm,
                 std::span<const schema::ToolSchema> tools) {
    if (arm.is_exact || tools.empty()) return Status::Ok();
    CompileListOptions recipe = RecipeFor(arm, options_);
    recipe.progress = [&](const compile::CompileProgress& progress) {
      if (options_.progress) {
        options_.progress(done_, total_, "compile " + progress.current);
      }
    };
    NEXUS_ASSIGN_OR_RETURN(const auto report,
                           CompileList(engine_, tools, recipe));
    // The tool is decoded; the next splice's notes say why.
    for (const auto& failure : report.failures) {
      failures_.push_back(failure.tool_name + ": " + failure.status.message());
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
    options.list_recipe =
        ListRecipeName(engine_, tools, RecipeFor(arm, options_));
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
  Result<ComposeLaying> LayDown(const PromptPlan& plan,
                                const PrepareOptions& options) {
    NEXUS_RETURN_IF_ERROR(session_->TruncateTo(0));
    const auto begin = Clock::Monotonic().Now();
    NEXUS_ASSIGN_OR_RETURN(const TierReport report,
                           session_->Prepare(plan, options));
    ComposeLaying laying;
    laying.ms = Milliseconds(Clock::Monotonic().Now() - begin);
    laying.spliced = report.spliced_tokens;
    laying.recomputed = report.recomputed_tokens;
    if (options.tier == Tier::kSplice) {
      laying.notes = std::exchange(failures_, {});
      for (const std::string& reason : report.reasons) {
        if (reason.starts_with("splice:")) laying.notes.push_back(reason);
      }
    }
    return laying;
  }

  Result<Reference> AskReference(ListCaller& caller, size_t list_end,
                                 const ComposeQuery& query) {
    Reference reference;
    const auto keep = [&](size_t position, std::span<const float> logits) {
      if (position >= static_cast<size_t>(options_.kl_positions)) return;
      if (reference.rows.size() <= position) {
        reference.rows.resize(position + 1);
      }
      reference.rows[position].resize(logits.size());
      LogSoftmax(logits, reference.rows[position]);
    };
    NEXUS_ASSIGN_OR_RETURN(
        reference.call,
        caller.Call(*session_, list_end, query.query, nullptr, keep));
    return reference;
  }

  Result<ListCall> Compare(ListCaller& caller, size_t list_end,
                           const ComposeQuery& query,
                           const Reference& reference, ComposeTrial* trial) {
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
      trial->kl.push_back(KlDivergence(reference.rows[position], row));
      if (position == 0) {
        trial->first_top1 = ArgMax(row) == ArgMax(reference.rows[0]);
      }
    };
    return caller.Call(*session_, list_end, query.query, &reference.call,
                       compare);
  }

  const Engine& engine_;
  const ComposeBenchOptions& options_;
  ComposeLog* const log_;
  std::unique_ptr<Session> session_;
  std::vector<std::string> failures_;  // to compile
  int done_ = 0;
  int total_ = 0;
};

}  // namespace

Json ComposeIdentity(const Engine& engine, const ComposeBenchOptions& options) {
  Sha256 of_sets;
  for (const schema::ToolSchema& tool : options.tools) {
    of_sets.Update(schema::ModelText(tool) + "\n");
  }
  for (const ComposeQuery& query : options.queries) {
    AddQuestion(query, &of_sets);
  }
  // Names the frame, the number of samples and the texts that blocks are
  // compiled behind.
  const std::string recipe = ListRecipeName(
      engine, {}, RecipeFor({.neighbours = ListNeighbours::kGeneric}, options));
  return {{"model_name", engine.model().info().name},
          {"model", ToHex(engine.fingerprint(kv::BlockKind::kSplice).Digest())},
          {"flash_attention", engine.attention().flash_attention},
          {"blocks", options.blocks},
          {"samples", options.samples},
          {"max_tokens", options.max_argument_tokens},
          {"kl_positions", options.kl_positions},
          {"recipe", recipe},
          {"tools_and_queries", ShortHash(&of_sets)}};
}

Status RunComposeBench(const Engine& engine, const ComposeBenchOptions& options,
                       ComposeLog* log) {
  NEXUS_RETURN_IF_ERROR(engine.splice_status());
  NEXUS_RETURN_IF_ERROR(engine.store_status());
  return Bench(engine, options, log).Run();
}

}  // namespace nexus::engine
