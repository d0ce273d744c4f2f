#include "nexus/calibrate/fidelity_study.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/calibrate/drift.h"
#include "nexus/engine/compile_tools.h"
#include "nexus/engine/fidelity.h"
#include "nexus/engine/session.h"
#include "nexus/kv/block_rewrite.h"

namespace nexus::calibrate {
namespace {

using engine::ArgumentMode;
using engine::FidelityReference;
using engine::FidelityStats;
using engine::PromptPlan;
using engine::Session;
using engine::Tier;
using engine::TierReport;
using llm::Token;

// Every n-th of the set by size, so that few tools still cover all sizes.
Result<std::vector<const CalibrationCase*>> ChooseCases(
    const engine::Engine& engine, const CalibrationSet& set, int count) {
  std::vector<std::pair<size_t, const CalibrationCase*>> sized;
  for (const CalibrationCase& one : set.cases) {
    NEXUS_ASSIGN_OR_RETURN(
        const std::vector<Token> tokens,
        engine.planner().BlockTokens({&one.tool, 1}, ArgumentMode::kSchema));
    sized.emplace_back(tokens.size(), &one);
  }
  std::stable_sort(
      sized.begin(), sized.end(),
      [](const auto& a, const auto& b) { return a.first < b.first; });
  const size_t wanted =
      std::min(sized.size(), static_cast<size_t>(std::max(count, 1)));
  std::vector<const CalibrationCase*> chosen;
  for (size_t i = 0; i < wanted; ++i) {
    chosen.push_back(sized[(2 * i + 1) * sized.size() / (2 * wanted)].second);
  }
  return chosen;
}

// One trial that is to be run.
struct Job {
  int depth = 0;
  size_t history = 0;
  const CalibrationCase* one = nullptr;
  size_t question = 0;
};

// Histories outside, depths within, so that a deeper history goes on from a
// shallower one's cells.
std::vector<Job> MakeJobs(const CalibrationSet& set,
                          const std::vector<const CalibrationCase*>& cases,
                          const StudyOptions& options) {
  const size_t kinds = set.histories.size();
  const auto a_tool = std::min(
      kinds, static_cast<size_t>(std::max(options.histories_a_tool, 1)));
  std::vector<int> depths = options.depths;
  std::sort(depths.begin(), depths.end());
  std::vector<Job> jobs;
  for (size_t history = 0; history < kinds; ++history) {
    for (const int depth : depths) {
      for (size_t i = 0; i < cases.size(); ++i) {
        // Tool i goes behind kinds i, i + 1, ... of them.
        const size_t turn = (history + kinds - i % kinds) % kinds;
        if (turn >= a_tool) continue;
        jobs.push_back(
            {depth, history, cases[i], turn % cases[i]->questions.size()});
      }
    }
  }
  return jobs;
}

class Study {
 public:
  Study(const engine::Engine& engine, const StudyOptions& options,
        const CalibrationSet& set)
      : engine_(engine), options_(options), set_(set) {}

  Status SetUp(std::span<const Job> jobs) {
    int deepest = 0;
    size_t longest = 0;
    for (const Job& job : jobs) {
      deepest = std::max(deepest, job.depth);
      NEXUS_ASSIGN_OR_RETURN(const PromptPlan plan, PlanOf(job));
      longest = std::max(longest, plan.TokenCount());
    }
    const int cells =
        deepest + static_cast<int>(longest) + options_.generated_tokens + 64;
    const int trained = engine_.model().info().context_train;
    if (trained > 0 && cells > trained) {
      return ResourceExhaustedError(
          "a depth of " + std::to_string(deepest) + " needs a context of " +
          std::to_string(cells) + " tokens, the model was trained for " +
          std::to_string(trained) + "; give a smaller --depths");
    }
    NEXUS_ASSIGN_OR_RETURN(session_, Session::Create(&engine_, cells));
    return Status::Ok();
  }

  // Whole turns of the jobs' common history in the session, nothing behind
  // them. On the way there the conversation blocks of all of the jobs are
  // taken, so that the history is decoded once.
  Status PlaceHistory(std::span<const Job> jobs) {
    const Job& first = jobs.front();
    NEXUS_ASSIGN_OR_RETURN(
        history_, HistoryOfDepth(engine_.planner(),
                                 set_.histories[first.history], first.depth));
    conversation_blocks_.clear();
    for (const double shared : Shares()) {
      const auto count =
          static_cast<size_t>(shared * static_cast<double>(history_.size()));
      NEXUS_RETURN_IF_ERROR(Decode(std::span(history_).first(count)));
      for (const Job& job : jobs) {
        NEXUS_RETURN_IF_ERROR(CheckCancel());
        NEXUS_RETURN_IF_ERROR(TakeBlock(job, count, shared));
      }
    }
    return Decode(history_);
  }

  Result<Trial> Run(const Job& job) {
    NEXUS_ASSIGN_OR_RETURN(PromptPlan plan, PlanOf(job));
    plan.history = history_;
    Trial trial;
    trial.depth = job.depth;
    trial.past_tokens = static_cast<int>(history_.size());
    trial.history = set_.histories[job.history].kind;
    trial.tool = job.one->tool.name;
    trial.question = job.one->questions[job.question];
    trial.block_tokens = static_cast<int>(plan.block.size());

    double elapsed = 0;
    NEXUS_RETURN_IF_ERROR(
        Prepare(plan, {.tier = Tier::kPrefill}, &elapsed).status());
    trial.prefill_ms = elapsed;
    NEXUS_ASSIGN_OR_RETURN(
        const llm::KvRows truth,
        session_->ReadCells(history_.size(),
                            history_.size() + plan.block.size()));
    NEXUS_ASSIGN_OR_RETURN(
        const FidelityReference reference,
        engine::GenerateReference(*session_, options_.generated_tokens));

    NEXUS_ASSIGN_OR_RETURN(TrialArm noise, NoiseFloor(plan, reference));
    trial.arms.push_back(std::move(noise));
    for (const StudyArm& arm : options_.arms) {
      NEXUS_RETURN_IF_ERROR(CheckCancel());
      NEXUS_ASSIGN_OR_RETURN(TrialArm result,
                             RunArm(plan, trial.tool, arm, truth, reference));
      trial.arms.push_back(std::move(result));
    }
    NEXUS_RETURN_IF_ERROR(Correlate(plan, truth, &trial));
    return trial;
  }

  Status CheckCancel() const {
    if (options_.cancel != nullptr && options_.cancel->load()) {
      return CancelledError(
          "interrupted; what was measured is kept, and the same command goes "
          "on from there");
    }
    return Status::Ok();
  }

 private:
  // Of the history at which conversation blocks are taken, rising.
  std::set<double> Shares() const {
    std::set<double> shares;
    for (const StudyArm& arm : options_.arms) {
      if (arm.shared > 0) shares.insert(arm.shared);
    }
    return shares;
  }

  // Exactly these tokens in the session.
  Status Decode(std::span<const Token> tokens) {
    NEXUS_RETURN_IF_ERROR(session_->TruncateTo(session_->ExactPrefix(tokens)));
    const size_t common = session_->tokens().size();
    if (common == tokens.size()) return Status::Ok();
    return session_->Append(tokens.subspan(common), llm::Logits::kNone);
  }

  Status TakeBlock(const Job& job, size_t count, double shared) {
    NEXUS_ASSIGN_OR_RETURN(PromptPlan plan, PlanOf(job));
    plan.history.assign(history_.begin(),
                        history_.begin() + static_cast<std::ptrdiff_t>(count));
    NEXUS_RETURN_IF_ERROR(session_->Append(plan.block, llm::Logits::kNone));
    NEXUS_ASSIGN_OR_RETURN(auto block, session_->Remember(plan, job.one->tool));
    if (block == nullptr) {
      return UnimplementedError(
          "arms with '@' need blocks of the conversation, and learning is off");
    }
    NEXUS_RETURN_IF_ERROR(session_->TruncateTo(count));
    conversation_blocks_[{job.one->tool.name, shared}] = std::move(block);
    return Status::Ok();
  }

  // The history is put in later: it is the same for many jobs.
  Result<PromptPlan> PlanOf(const Job& job) const {
    const std::array<llm::ChatMessage, 1> messages = {
        {{.role = "user", .content = job.one->questions[job.question]}}};
    return engine_.planner().PlanCall(messages, {&job.one->tool, 1},
                                      ArgumentMode::kSchema,
                                      job.one->tool.name);
  }

  Result<TierReport> Prepare(const PromptPlan& plan,
                             const engine::PrepareOptions& options,
                             double* elapsed_ms) {
    NEXUS_RETURN_IF_ERROR(session_->TruncateTo(history_.size()));
    const auto begin = Clock::Monotonic().Now();
    NEXUS_ASSIGN_OR_RETURN(TierReport report, session_->Prepare(plan, options));
    *elapsed_ms = Milliseconds(Clock::Monotonic().Now() - begin);
    return report;
  }

  Result<TrialArm> NoiseFloor(const PromptPlan& plan,
                              const FidelityReference& reference) {
    NEXUS_RETURN_IF_ERROR(session_->TruncateTo(history_.size()));
    NEXUS_RETURN_IF_ERROR(engine::PrefillInOddPieces(*session_, plan));
    NEXUS_ASSIGN_OR_RETURN(FidelityStats stats,
                           engine::CompareWithReference(*session_, reference));
    TrialArm arm;
    arm.noise = true;
    arm.kl = std::move(stats.kl);
    arm.top1 = std::move(stats.top1);
    return arm;
  }

  Result<std::shared_ptr<const kv::KvBlock>> BlockOf(
      const PromptPlan& plan, const std::string& tool,
      const StudyArm& arm) const {
    if (arm.shared > 0) return conversation_blocks_.at({tool, arm.shared});
    return CompiledBlock(plan, arm.contexts);
  }

  Result<std::shared_ptr<const kv::KvBlock>> CompiledBlock(
      const PromptPlan& plan, int contexts) const {
    return engine_.store()->Find(
        engine_.SpliceKey(plan.block, contexts),
        {.expected = &engine_.fingerprint(kv::BlockKind::kSplice)});
  }

  // The same block as the arm stores it. It is unlinked once it is mapped.
  Result<std::shared_ptr<const kv::KvBlock>> StoredAs(
      std::shared_ptr<const kv::KvBlock> block,
      const kv::BlockStorage& storage) const {
    if (block->storage() == storage) return block;
    FileSystem& fs = FileSystem::Default();
    const std::string path =
        TemporaryNameFor(engine_.store()->PathOf("study.nxb"));
    NEXUS_RETURN_IF_ERROR(kv::RewriteBlock(fs, *block, storage, path));
    auto rewritten = kv::KvBlock::Open(path);
    static_cast<void>(fs.Remove(path));
    return rewritten;
  }

  Result<TrialArm> RunArm(const PromptPlan& plan, const std::string& tool,
                          const StudyArm& arm, const llm::KvRows& truth,
                          const FidelityReference& reference) {
    engine::PrepareOptions options;
    options.tier = Tier::kSplice;
    options.policy = arm.policy;
    options.recompute_share = arm.share;
    engine::StudyInput input;
    NEXUS_ASSIGN_OR_RETURN(const auto block, BlockOf(plan, tool, arm));
    NEXUS_ASSIGN_OR_RETURN(input.block, StoredAs(block, arm.storage));
    if (arm.policy == kv::RepairPolicy::kDeviation) {
      NEXUS_ASSIGN_OR_RETURN(input.deviation, TokenDrift(*input.block, truth));
    }
    if (arm.min_run > 0) input.min_run = arm.min_run;
    options.study = &input;
    TrialArm result;
    result.arm = arm;
    NEXUS_ASSIGN_OR_RETURN(const TierReport report,
                           Prepare(plan, options, &result.ttft_ms));
    if (report.tier != Tier::kSplice) {
      std::string why = "the splice was refused";
      for (const std::string& reason : report.reasons) why += "; " + reason;
      return UnimplementedError(why);
    }
    NEXUS_ASSIGN_OR_RETURN(FidelityStats stats,
                           engine::CompareWithReference(*session_, reference));
    result.recompute_share = report.recompute_share;
    result.runs = report.decode_runs;
    result.kl = std::move(stats.kl);
    result.top1 = std::move(stats.top1);
    NEXUS_ASSIGN_OR_RETURN(result.predicted, Predict(options));
    return result;
  }

  Result<double> Predict(const engine::PrepareOptions& options) const {
    const std::span<const float> sensitivity =
        options.study->block->sensitivity();
    if (sensitivity.empty()) return 0.0;
    kv::PlanRequest request = {
        .policy = *options.policy,
        .token_count = options.study->block->token_count(),
        .share = options.recompute_share,
        .sensitivity = sensitivity};
    options.study->FillIn(&request);
    NEXUS_ASSIGN_OR_RETURN(const kv::RecomputePlan plan,
                           kv::PlanRecompute(request));
    double sum = 0;
    for (const kv::PlanRun& run : plan.runs) {
      if (run.kind != kv::RunKind::kSplice) continue;
      for (int i = run.begin; i < run.end; ++i) {
        sum += static_cast<double>(sensitivity[static_cast<size_t>(i)]);
      }
    }
    return sum;
  }

  Status Correlate(const PromptPlan& plan, const llm::KvRows& truth,
                   Trial* trial) const {
    // The block of the most contexts that the study has.
    int contexts = 0;
    for (const StudyArm& arm : options_.arms) {
      if (arm.shared == 0) contexts = std::max(contexts, arm.contexts);
    }
    if (contexts == 0) return Status::Ok();
    NEXUS_ASSIGN_OR_RETURN(const auto block, CompiledBlock(plan, contexts));
    NEXUS_ASSIGN_OR_RETURN(const std::vector<float> drift,
                           TokenDrift(*block, truth));
    std::vector<uint32_t> dims;
    for (const llm::LayerRope& layer : engine_.rope().layers) {
      dims.push_back(layer.head_dim);
    }
    NEXUS_ASSIGN_OR_RETURN(const std::vector<float> proxy,
                           KVarianceProxy(*block, dims));
    trial->rho_sensitivity = SpearmanRho(block->sensitivity(), drift);
    trial->rho_k_variance = SpearmanRho(proxy, drift);
    double sum = 0;
    for (const float value : proxy) sum += static_cast<double>(value);
    trial->k_variance =
        sum / static_cast<double>(std::max<size_t>(proxy.size(), 1));
    return Status::Ok();
  }

  const engine::Engine& engine_;
  const StudyOptions& options_;
  const CalibrationSet& set_;
  std::unique_ptr<Session> session_;
  std::vector<Token> history_;
  // By tool and shared share of the history.
  std::map<std::pair<std::string, double>, std::shared_ptr<const kv::KvBlock>>
      conversation_blocks_;
};

Status CompileCases(const engine::Engine& engine,
                    const std::vector<const CalibrationCase*>& cases,
                    const StudyOptions& options) {
  std::vector<schema::ToolSchema> tools;
  tools.reserve(cases.size());
  for (const CalibrationCase* one : cases) tools.push_back(one->tool);
  std::set<int> counts;
  for (const StudyArm& arm : options.arms) {
    if (arm.shared == 0) counts.insert(arm.contexts);
  }
  for (const int contexts : counts) {
    engine::CompileToolsOptions compile;
    compile.contexts = contexts;
    compile.cancel = options.cancel;
    compile.progress = [&](const compile::CompileProgress& progress) {
      if (options.progress) {
        options.progress(
            0, 0,
            "compiling " +
                std::to_string(std::min(progress.done + 1, progress.total)) +
                " of " + std::to_string(progress.total) + " tools behind " +
                std::to_string(contexts) + " contexts");
      }
    };
    NEXUS_ASSIGN_OR_RETURN(const compile::CompileReport report,
                           CompileTools(engine, tools, compile));
    if (!report.failures.empty()) return report.failures.front().status;
  }
  return Status::Ok();
}

}  // namespace

std::string Trial::Key() const {
  return std::to_string(depth) + "|" + history + "|" + tool + "|" + question;
}

Status RunFidelityStudy(const engine::Engine& engine,
                        const StudyOptions& options,
                        const std::map<std::string, Trial>& done,
                        const std::function<Status(Trial)>& on_trial) {
  NEXUS_RETURN_IF_ERROR(engine.splice_status());
  NEXUS_RETURN_IF_ERROR(engine.store_status());
  NEXUS_ASSIGN_OR_RETURN(const CalibrationSet set, LoadCalibrationSet());
  NEXUS_ASSIGN_OR_RETURN(const std::vector<const CalibrationCase*> cases,
                         ChooseCases(engine, set, options.tools));
  std::vector<Job> jobs = MakeJobs(set, cases, options);
  const size_t total = jobs.size();
  std::erase_if(jobs, [&](const Job& job) {
    Trial trial;
    trial.depth = job.depth;
    trial.history = set.histories[job.history].kind;
    trial.tool = job.one->tool.name;
    trial.question = job.one->questions[job.question];
    return done.contains(trial.Key());
  });
  if (jobs.empty()) return Status::Ok();
  NEXUS_RETURN_IF_ERROR(CompileCases(engine, cases, options));
  Study study(engine, options, set);
  NEXUS_RETURN_IF_ERROR(study.SetUp(jobs));
  size_t finished = total - jobs.size();
  const Job* placed = nullptr;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Job& job = jobs[i];
    NEXUS_RETURN_IF_ERROR(study.CheckCancel());
    if (options.progress) {
      options.progress(static_cast<int>(finished), static_cast<int>(total),
                       "depth " + std::to_string(job.depth) + ", " +
                           std::string(set.histories[job.history].kind) + ", " +
                           job.one->tool.name);
    }
    if (placed == nullptr || placed->history != job.history ||
        placed->depth != job.depth) {
      size_t end = i;
      while (end < jobs.size() && jobs[end].history == job.history &&
             jobs[end].depth == job.depth) {
        ++end;
      }
      NEXUS_RETURN_IF_ERROR(
          study.PlaceHistory(std::span(jobs).subspan(i, end - i)));
      placed = &job;
    }
    NEXUS_ASSIGN_OR_RETURN(Trial trial, study.Run(job));
    NEXUS_RETURN_IF_ERROR(on_trial(std::move(trial)));
    ++finished;
  }
  return Status::Ok();
}

}  // namespace nexus::calibrate
