#include "nexus/engine/determinism_bench.h"

#include <algorithm>
#include <array>
#include <barrier>
#include <cmath>
#include <memory>
#include <random>
#include <span>
#include <thread>
#include <utility>

#include "nexus/engine/compile_tools.h"
#include "nexus/engine/ttft_bench.h"

namespace nexus::engine {
namespace {

using Scripts = std::vector<DeterminismScript>;

class Bench {
 public:
  Bench(const Engine& engine, const DeterminismOptions& options)
      : engine_(engine), options_(options) {}

  Result<DeterminismResult> Run();

 private:
  Status MakeScripts();
  // Compiles what is spliced and stores the cells of exact variants.
  Status FillStore();
  Status RunAlone();
  Status RunInterleaved(int order);
  Status RunConcurrently(int round);
  Status RunControl();

  Status Progress(const std::string& step) {
    ++steps_done_;
    if (options_.cancel != nullptr && options_.cancel->load()) {
      return CancelledError("interrupted before " + step);
    }
    if (options_.progress) {
      const int total = options_.orders + options_.concurrent_rounds + 4;
      options_.progress(static_cast<double>(steps_done_ - 1) / total, step);
    }
    return Status::Ok();
  }
  Status CheckCancel() const {
    if (options_.cancel == nullptr || !options_.cancel->load()) {
      return Status::Ok();
    }
    return CancelledError("interrupted");
  }

  const Engine& engine_;
  const DeterminismOptions& options_;
  Scripts scripts_;
  DeterminismResult result_;
  int steps_done_ = 0;
};

Status Bench::MakeScripts() {
  for (int i = 0; i < options_.sessions; ++i) {
    schema::ToolSchema tool;
    if (options_.tools.empty()) {
      NEXUS_ASSIGN_OR_RETURN(
          tool, GeneratedTool(engine_, options_.schema_tokens + 13 * i));
      tool.name += "_" + std::to_string(i + 1);
    } else {
      tool = options_.tools[static_cast<size_t>(i) % options_.tools.size()];
    }
    NEXUS_ASSIGN_OR_RETURN(DeterminismScript script,
                           MakeScript(engine_, tool, i, options_.shape));
    scripts_.push_back(std::move(script));
  }
  return Status::Ok();
}

Status Bench::FillStore() {
  NEXUS_RETURN_IF_ERROR(Progress("compiling blocks"));
  std::vector<schema::ToolSchema> spliced;
  for (const DeterminismScript& script : scripts_) {
    if (script.tier == Tier::kSplice) spliced.push_back(script.tool);
  }
  // One context: how good the block is doesn't matter here.
  NEXUS_ASSIGN_OR_RETURN(
      const compile::CompileReport report,
      CompileTools(engine_, spliced,
                   {.contexts = 1, .cancel = options_.cancel}));
  if (!report.failures.empty()) {
    return report.failures[0].status.WithContext(report.failures[0].tool_name);
  }
  for (const DeterminismScript& script : scripts_) {
    if (script.tier != Tier::kExactVariant) continue;
    NEXUS_RETURN_IF_ERROR(CheckCancel());
    NEXUS_ASSIGN_OR_RETURN(auto session,
                           Session::Create(&engine_, CellsOf(script)));
    for (const ScriptStep& step : script.steps) {
      if (step.kind != StepKind::kAppend) continue;
      NEXUS_RETURN_IF_ERROR(session->Append(step.tokens, llm::Logits::kNone));
    }
    NEXUS_RETURN_IF_ERROR(
        session->Append(script.plans[0].block, llm::Logits::kNone));
    NEXUS_RETURN_IF_ERROR(session->StoreVariant(script.plans[0], script.tool));
  }
  return Status::Ok();
}

Status Bench::RunAlone() {
  NEXUS_RETURN_IF_ERROR(Progress("each session alone"));
  for (const DeterminismScript& script : scripts_) {
    NEXUS_ASSIGN_OR_RETURN(auto runner,
                           ScriptRunner::Create(&engine_, &script));
    while (!runner->done()) {
      NEXUS_RETURN_IF_ERROR(CheckCancel());
      NEXUS_RETURN_IF_ERROR(runner->Step());
    }
    result_.sessions.push_back({.name = script.name,
                                .tool = schema::ToolId(script.tool),
                                .steps = static_cast<int>(script.steps.size()),
                                .alone = runner->Finish()});
  }
  return Status::Ok();
}

Status Bench::RunInterleaved(int order) {
  const std::string run = "order " + std::to_string(order + 1);
  NEXUS_RETURN_IF_ERROR(Progress("interleaved, " + run));
  std::vector<std::unique_ptr<ScriptRunner>> runners;
  std::vector<size_t> open;
  for (const DeterminismScript& script : scripts_) {
    NEXUS_ASSIGN_OR_RETURN(auto runner,
                           ScriptRunner::Create(&engine_, &script));
    open.push_back(runners.size());
    runners.push_back(std::move(runner));
  }
  std::mt19937_64 random(options_.seed + static_cast<uint64_t>(order));
  while (!open.empty()) {
    NEXUS_RETURN_IF_ERROR(CheckCancel());
    const size_t at = random() % open.size();
    ScriptRunner& runner = *runners[open[at]];
    NEXUS_RETURN_IF_ERROR(runner.Step());
    if (runner.done())
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(at));
  }
  for (size_t i = 0; i < runners.size(); ++i) {
    CompareTraces(result_.sessions[i], runners[i]->Finish(), run, &result_);
  }
  return Status::Ok();
}

Status Bench::RunConcurrently(int round) {
  const std::string run = "concurrent round " + std::to_string(round + 1);
  NEXUS_RETURN_IF_ERROR(Progress(run));
  struct Outcome {
    Status status;
    ScriptTrace trace;
  };
  std::vector<Outcome> outcomes(scripts_.size());
  std::barrier start(static_cast<std::ptrdiff_t>(scripts_.size()));
  const auto follow = [&](size_t i) -> Status {
    auto runner = ScriptRunner::Create(&engine_, &scripts_[i]);
    // Everyone waits here, whoever failed too, so that no one runs alone.
    start.arrive_and_wait();
    NEXUS_RETURN_IF_ERROR(runner.status());
    while (!(*runner)->done()) {
      NEXUS_RETURN_IF_ERROR(CheckCancel());
      NEXUS_RETURN_IF_ERROR((*runner)->Step());
    }
    outcomes[i].trace = (*runner)->Finish();
    return Status::Ok();
  };
  std::vector<std::thread> threads;
  threads.reserve(scripts_.size());
  for (size_t i = 0; i < scripts_.size(); ++i) {
    threads.emplace_back([&, i] { outcomes[i].status = follow(i); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Outcome& outcome : outcomes) {
    NEXUS_RETURN_IF_ERROR(outcome.status);
  }
  for (size_t i = 0; i < outcomes.size(); ++i) {
    CompareTraces(result_.sessions[i], outcomes[i].trace, run, &result_);
  }
  return Status::Ok();
}

// Sequence 0 decodes a plan in pieces; `neighbour` says whether sequence 1
// decodes its own between them.
Result<std::vector<float>> DecodeShared(const Engine& engine,
                                        const Scripts& scripts,
                                        bool neighbour) {
  const std::array<std::vector<ScriptStep>, 2> steps = {scripts.front().steps,
                                                        scripts.back().steps};
  const int cells = CellsOf(scripts.front()) + CellsOf(scripts.back());
  NEXUS_ASSIGN_OR_RETURN(
      auto context, llm::Context::Create(
                        engine.shared_model(),
                        {.context_tokens = cells,
                         .threads = engine.options().threads,
                         .sequences = 2,
                         .flash_attention = engine.attention().flash_attention,
                         .kv_type = engine.options().kv_type}));
  std::vector<float> rows;
  const size_t longest = std::max(steps[0].size(), steps[1].size());
  for (size_t i = 0; i < longest; ++i) {
    for (const llm::SequenceId sequence : {1, 0}) {
      if (sequence == 1 && !neighbour) continue;
      const auto& own = steps[static_cast<size_t>(sequence)];
      if (i >= own.size() || own[i].kind != StepKind::kAppend) continue;
      std::span<const llm::Token> tokens = own[i].tokens;
      // Whole vectors of masked cells between one's own change no sum: each
      // lane adds a few zeros. An odd number of them moves cells between lanes.
      if (sequence == 1 && tokens.size() % 2 == 0) {
        tokens = tokens.first(tokens.size() - 1);
      }
      NEXUS_RETURN_IF_ERROR(context->Decode(tokens,
                                            context->PositionEnd(sequence),
                                            sequence, llm::Logits::kLast));
      if (sequence == 1) continue;
      const std::span<const float> row = context->LogitsRow(0);
      rows.insert(rows.end(), row.begin(), row.end());
    }
  }
  return rows;
}

Status Bench::RunControl() {
  NEXUS_RETURN_IF_ERROR(Progress("control: two conversations in one context"));
  NEXUS_ASSIGN_OR_RETURN(const std::vector<float> alone,
                         DecodeShared(engine_, scripts_, false));
  NEXUS_ASSIGN_OR_RETURN(const std::vector<float> beside,
                         DecodeShared(engine_, scripts_, true));
  DeterminismControl& control = result_.shared_context;
  control.logits_hash_equal =
      Xxh3(alone.data(), alone.size() * sizeof(float)) ==
      Xxh3(beside.data(), beside.size() * sizeof(float));
  for (size_t i = 0; i < alone.size(); ++i) {
    control.largest_difference =
        std::max(control.largest_difference,
                 std::fabs(double{alone[i]} - double{beside[i]}));
  }
  return Status::Ok();
}

Result<DeterminismResult> Bench::Run() {
  if (options_.sessions < 1 || options_.orders < 0 ||
      options_.concurrent_rounds < 0) {
    return InvalidArgumentError(
        "determinism: expected 1 session or more and no negative counts, got " +
        std::to_string(options_.sessions) + " sessions, " +
        std::to_string(options_.orders) + " orders, " +
        std::to_string(options_.concurrent_rounds) + " rounds");
  }
  NEXUS_RETURN_IF_ERROR(engine_.splice_status());
  NEXUS_RETURN_IF_ERROR(engine_.store_status());
  NEXUS_RETURN_IF_ERROR(MakeScripts());
  NEXUS_RETURN_IF_ERROR(FillStore());
  NEXUS_RETURN_IF_ERROR(RunAlone());
  for (int order = 0; order < options_.orders; ++order) {
    NEXUS_RETURN_IF_ERROR(RunInterleaved(order));
  }
  for (int round = 0; round < options_.concurrent_rounds; ++round) {
    NEXUS_RETURN_IF_ERROR(RunConcurrently(round));
  }
  NEXUS_RETURN_IF_ERROR(RunControl());
  result_.orders = options_.orders;
  result_.concurrent_rounds = options_.concurrent_rounds;
  return std::move(result_);
}

}  // namespace

void CompareTraces(const DeterminismSession& session, const ScriptTrace& other,
                   const std::string& run, DeterminismResult* result) {
  result->rows_compared += other.rows;
  const bool same_tokens = session.alone.tokens == other.tokens;
  const bool same_logits = session.alone.logits_sha256 == other.logits_sha256 &&
                           session.alone.rows == other.rows;
  result->tokens_equal = result->tokens_equal && same_tokens;
  result->logits_hash_equal = result->logits_hash_equal && same_logits;
  if (same_tokens && same_logits) return;
  const auto& ours = session.alone.step_hashes;
  const auto [mine, theirs] =
      std::mismatch(ours.begin(), ours.end(), other.step_hashes.begin(),
                    other.step_hashes.end());
  result->differences.push_back(session.name + ", " + run + ": step " +
                                std::to_string(mine - ours.begin() + 1) +
                                " of " + std::to_string(session.steps) +
                                " is the first that differs");
}

Result<DeterminismResult> RunDeterminismBench(
    const Engine& engine, const DeterminismOptions& options) {
  return Bench(engine, options).Run();
}

}  // namespace nexus::engine
