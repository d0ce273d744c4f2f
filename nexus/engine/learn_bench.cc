#include "nexus/engine/learn_bench.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "nexus/base/clock.h"
#include "nexus/base/median.h"
#include "nexus/compile/block_accumulator.h"
#include "nexus/engine/bench_text.h"
#include "nexus/engine/compile_tools.h"
#include "nexus/engine/fidelity.h"
#include "nexus/kv/row_convert.h"

namespace nexus::engine {
namespace {

constexpr double kShares[] = {0, 0.22};

double Since(std::chrono::nanoseconds start) {
  return Milliseconds(Clock::Monotonic().Now() - start);
}

// Two turns of the compile contexts' texts, from the last ones backwards, since
// compiling takes the first; the n-th pair differs from the others. Test
// histories are prose of another source.
std::vector<llm::ChatMessage> Conversation(int n, const std::string& tool) {
  const auto texts = compile::CompileTexts();
  const size_t count = texts.size();
  const auto at = static_cast<size_t>(n);
  const compile::CompileText& a = texts[count - 1 - at % count];
  const compile::CompileText& b = texts[(at + 1 + at / count) % count];
  return {{.role = "user", .content = std::string(a.user)},
          {.role = "assistant", .content = std::string(a.answer)},
          {.role = "user", .content = std::string(b.user)},
          {.role = "assistant", .content = std::string(b.answer)},
          {.role = "user", .content = "Use " + tool + " for this, please."}};
}

std::vector<llm::ChatMessage> TestConversation(int n, int words) {
  return {{.role = "user",
           .content = "Notes, part " + std::to_string(n + 1) + ".\n\n" +
                      BenchProse(words * (n + 1))},
          {.role = "assistant", .content = "Thank you, I have read them."},
          {.role = "user", .content = BenchQuestion(12)}};
}

// Rows of a stored block against float32 means: sums of squares.
struct Squares {
  double error = 0;
  double norm = 0;

  void Add(const std::vector<float>& stored, const std::vector<float>& mean) {
    for (size_t i = 0; i < mean.size(); ++i) {
      const double difference = static_cast<double>(stored[i] - mean[i]);
      error += difference * difference;
      norm += static_cast<double>(mean[i]) * static_cast<double>(mean[i]);
    }
  }
  double Share() const { return std::sqrt(error / std::max(norm, 1e-30)); }
};

Result<FoldError> MeasureFold(const kv::KvBlock& stored,
                              const compile::BlockAccumulator& exact) {
  NEXUS_ASSIGN_OR_RETURN(const compile::AccumulatedBlock once, exact.Finish());
  FoldError fold;
  fold.samples = exact.context_count();
  Squares k;
  Squares v;
  Squares v_once;
  double m2 = 0;
  for (size_t layer = 0; layer < stored.layers().size(); ++layer) {
    const llm::KvLayerShape& shape = stored.layers()[layer];
    std::vector<float> rows(exact.KMean(layer).size());
    stored.ReadK(layer, 0, stored.token_count(), rows.data());
    k.Add(rows, exact.KMean(layer));
    rows.resize(exact.VMean(layer).size());
    stored.ReadV(layer, 0, stored.token_count(), rows.data());
    v.Add(rows, exact.VMean(layer));
    kv::RowsToF32(shape.v_type, once.v[layer].data(), rows.size(), rows.data());
    v_once.Add(rows, exact.VMean(layer));
    for (const float value : once.v_m2[layer]) m2 += static_cast<double>(value);
  }
  fold.k = k.Share();
  fold.v = v.Share();
  fold.v_once = v_once.Share();
  fold.v_drift = std::sqrt(m2 / (fold.samples - 1) / std::max(v.norm, 1e-30));
  for (size_t i = 0; i < once.sensitivity.size(); ++i) {
    const double expected = static_cast<double>(once.sensitivity[i]);
    const double found = static_cast<double>(stored.sensitivity()[i]);
    fold.sensitivity =
        std::max(fold.sensitivity,
                 std::abs(found - expected) / std::max(expected, 1e-30));
  }
  return fold;
}

class Runner {
 public:
  Runner(const Engine& engine, const LearnBenchOptions& options)
      : engine_(engine), options_(options) {}

  Result<LearnBenchResult> Run() {
    for (const schema::ToolSchema& tool : options_.tools) {
      NEXUS_RETURN_IF_ERROR(RunTool(tool));
    }
    const auto tools = static_cast<double>(options_.tools.size());
    result_.block_bytes /= result_.block_tokens;
    result_.compile_ms /= tools;
    result_.prefill_ms = Median(prefill_ms_);
    result_.learn_ms = Median(learn_ms_);
    for (auto& [samples, fold] : folds_) {
      for (double* value :
           {&fold.k, &fold.v, &fold.v_once, &fold.v_drift, &fold.sensitivity}) {
        *value /= tools;
      }
      result_.folds.push_back(fold);
    }
    for (auto& [key, cell] : cells_) {
      cell.row.kl_mean = cell.stats.KlMean();
      cell.row.top1 = cell.stats.Top1();
      cell.row.positions = static_cast<int>(cell.stats.kl.size());
      cell.row.splice_ms = Median(cell.splice_ms);
      result_.fidelity.push_back(cell.row);
    }
    return std::move(result_);
  }

 private:
  struct Cell {
    LearnFidelity row;
    FidelityStats stats;
    std::vector<double> splice_ms;
  };
  struct Test {
    PromptPlan plan;
    FidelityReference reference;
  };

  Status Tell(const std::string& step) const {
    if (options_.progress) options_.progress(step);
    if (options_.cancel != nullptr && options_.cancel->load()) {
      return CancelledError("bench: stopped");
    }
    return Status::Ok();
  }

  Result<PromptPlan> PlanFor(std::span<const llm::ChatMessage> messages,
                             const schema::ToolSchema& tool) const {
    NEXUS_ASSIGN_OR_RETURN(
        PromptPlan plan,
        engine_.planner().PlanCall(messages, {&tool, 1}, ArgumentMode::kSchema,
                                   tool.name));
    const auto most = static_cast<size_t>(options_.history_tokens);
    if (plan.history.size() > most) plan.history.resize(most);
    return plan;
  }

  Status RunTool(const schema::ToolSchema& tool) {
    NEXUS_ASSIGN_OR_RETURN(const PromptPlan first,
                           PlanFor(Conversation(0, tool.name), tool));
    if (engine_.FindSplice(first.block).ok()) {
      return InvalidArgumentError(
          "bench: the store has a block of " + schema::ToolId(tool) +
          " already; give an empty folder with --store");
    }
    result_.block_tokens += static_cast<int>(first.block.size());
    NEXUS_ASSIGN_OR_RETURN(session_, Session::Create(&engine_));
    NEXUS_ASSIGN_OR_RETURN(const std::vector<Test> tests, MakeTests(tool));

    compile::BlockAccumulator exact(engine_.kv_layout(), engine_.rope(),
                                    static_cast<int>(first.block.size()));
    for (int n = 0; n < options_.samples; ++n) {
      NEXUS_RETURN_IF_ERROR(
          Tell(schema::ToolId(tool) + ": sample " + std::to_string(n + 1)));
      NEXUS_RETURN_IF_ERROR(LearnSample(tool, n, &exact));
      const int count = n + 1;
      const bool is_power = (count & n) == 0;
      if (!is_power && count != options_.samples) continue;
      NEXUS_ASSIGN_OR_RETURN(const auto block, engine_.FindSplice(first.block));
      if (count > 1) {
        NEXUS_ASSIGN_OR_RETURN(const FoldError fold,
                               MeasureFold(*block, exact));
        AddFold(fold);
      }
      if (count == options_.samples) {
        result_.block_bytes += static_cast<double>(block->file_bytes());
      }
      NEXUS_RETURN_IF_ERROR(MeasureSplices("learned", block, tests));
    }

    NEXUS_RETURN_IF_ERROR(Tell(schema::ToolId(tool) + ": compiling"));
    const auto start = Clock::Monotonic().Now();
    NEXUS_RETURN_IF_ERROR(CompileTools(engine_, {&tool, 1},
                                       {.contexts = options_.compile_contexts})
                              .status());
    result_.compile_ms += Since(start);
    NEXUS_ASSIGN_OR_RETURN(const auto compiled,
                           engine_.store()->Find(engine_.SpliceKey(
                               first.block, options_.compile_contexts)));
    return MeasureSplices("compiled", compiled, tests);
  }

  Result<std::vector<Test>> MakeTests(const schema::ToolSchema& tool) {
    std::vector<Test> tests;
    for (int n = 0; n < options_.test_histories; ++n) {
      NEXUS_RETURN_IF_ERROR(Tell(schema::ToolId(tool) + ": reference"));
      Test test;
      NEXUS_ASSIGN_OR_RETURN(
          test.plan,
          PlanFor(TestConversation(n, options_.history_tokens / 2), tool));
      NEXUS_RETURN_IF_ERROR(StandBehindHistory(test.plan));
      const auto start = Clock::Monotonic().Now();
      NEXUS_RETURN_IF_ERROR(
          session_->Prepare(test.plan, {.tier = Tier::kPrefill}).status());
      prefill_ms_.push_back(Since(start));
      NEXUS_ASSIGN_OR_RETURN(
          test.reference,
          GenerateReference(*session_, options_.fidelity_tokens));
      tests.push_back(std::move(test));
    }
    return tests;
  }

  Status StandBehindHistory(const PromptPlan& plan) {
    NEXUS_RETURN_IF_ERROR(session_->TruncateTo(0));
    return session_->Append(plan.history, llm::Logits::kNone);
  }

  // As an answer does it: prefill, then learn.
  Status LearnSample(const schema::ToolSchema& tool, int n,
                     compile::BlockAccumulator* exact) {
    NEXUS_ASSIGN_OR_RETURN(const PromptPlan plan,
                           PlanFor(Conversation(n, tool.name), tool));
    NEXUS_RETURN_IF_ERROR(session_->TruncateTo(0));
    NEXUS_RETURN_IF_ERROR(
        session_->Prepare(plan, {.tier = Tier::kPrefill}).status());
    const size_t begin = plan.history.size();
    NEXUS_ASSIGN_OR_RETURN(
        const llm::KvRows rows,
        session_->ReadCells(begin, begin + plan.block.size()));
    NEXUS_RETURN_IF_ERROR(exact->Add(rows));
    NEXUS_ASSIGN_OR_RETURN(const compile::LearnReport report,
                           session_->Learn(plan, tool));
    if (report.samples != exact->context_count()) {
      return InvalidArgumentError(
          "bench: the block has " + std::to_string(report.samples) +
          " samples, expected " + std::to_string(exact->context_count()) +
          (report.reason.empty() ? std::string() : "; " + report.reason));
    }
    learn_ms_.push_back(report.elapsed_ms);
    return Status::Ok();
  }

  void AddFold(const FoldError& fold) {
    FoldError& sum = folds_[fold.samples];
    sum.samples = fold.samples;
    sum.k += fold.k;
    sum.v += fold.v;
    sum.v_once += fold.v_once;
    sum.v_drift += fold.v_drift;
    sum.sensitivity += fold.sensitivity;
  }

  Status MeasureSplices(const std::string& name,
                        std::shared_ptr<const kv::KvBlock> block,
                        const std::vector<Test>& tests) {
    StudyInput study;
    study.block = std::move(block);
    const int samples = study.block->metadata().context_count;
    for (const double share : kShares) {
      // One sample has no profile to re-decode by.
      if (share > 0 && study.block->sensitivity().empty()) continue;
      PrepareOptions prepare;
      prepare.tier = Tier::kSplice;
      prepare.policy =
          share > 0 ? kv::RepairPolicy::kSensitivity : kv::RepairPolicy::kNone;
      prepare.recompute_share = share;
      prepare.study = &study;
      Cell& cell = cells_[{name, samples, share}];
      cell.row.block = name;
      cell.row.samples = samples;
      cell.row.share = share;
      for (const Test& test : tests) {
        NEXUS_RETURN_IF_ERROR(StandBehindHistory(test.plan));
        const auto start = Clock::Monotonic().Now();
        NEXUS_ASSIGN_OR_RETURN(const TierReport report,
                               session_->Prepare(test.plan, prepare));
        cell.splice_ms.push_back(Since(start));
        if (report.tier != Tier::kSplice) {
          return UnimplementedError("bench: not spliced: " +
                                    (report.reasons.empty()
                                         ? std::string("no reason given")
                                         : report.reasons.back()));
        }
        NEXUS_ASSIGN_OR_RETURN(const FidelityStats stats,
                               CompareWithReference(*session_, test.reference));
        cell.stats.kl.insert(cell.stats.kl.end(), stats.kl.begin(),
                             stats.kl.end());
        cell.stats.top1.insert(cell.stats.top1.end(), stats.top1.begin(),
                               stats.top1.end());
      }
    }
    return Status::Ok();
  }

  const Engine& engine_;
  const LearnBenchOptions& options_;
  std::unique_ptr<Session> session_;
  LearnBenchResult result_;
  std::vector<double> prefill_ms_;
  std::vector<double> learn_ms_;
  std::map<int, FoldError> folds_;  // sums over tools, by samples
  std::map<std::tuple<std::string, int, double>, Cell> cells_;
};

}  // namespace

Result<LearnBenchResult> RunLearnBench(const Engine& engine,
                                       const LearnBenchOptions& options) {
  NEXUS_RETURN_IF_ERROR(engine.splice_status());
  NEXUS_RETURN_IF_ERROR(engine.store_status());
  if (options.tools.empty() || options.samples < 2 ||
      options.test_histories < 1 || !engine.options().learn) {
    return InvalidArgumentError(
        "bench: learning needs a tool, two samples, a test history, and "
        "EngineOptions::learn");
  }
  return Runner(engine, options).Run();
}

}  // namespace nexus::engine
