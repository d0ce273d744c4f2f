// nexus bench learn: what learning from traffic costs, and after how many uses
// it has paid for itself.
#include <cstdio>

#include "nexus/cli/bench_commands.h"
#include "nexus/cli/exit_code.h"
#include "nexus/cli/interrupt.h"
#include "nexus/cli/terminal.h"
#include "nexus/engine/learn_bench.h"

namespace nexus::cli {
namespace {

// In uses; see learn_bench.h. < 0: never, the splice saves nothing.
double BreakEven(double own_ms, double free_uses, double saved_ms) {
  return saved_ms > 0 ? free_uses + own_ms / saved_ms : -1;
}

double BreakEvenOf(const engine::LearnBenchResult& result,
                   const engine::LearnFidelity& row) {
  const double saved = result.prefill_ms - row.splice_ms;
  if (row.block == "compiled") return BreakEven(result.compile_ms, 0, saved);
  return BreakEven(result.learn_ms * row.samples, row.samples, saved);
}

Json ResultJson(const engine::Engine& engine,
                const engine::LearnBenchOptions& options,
                const engine::LearnBenchResult& result) {
  Json folds = Json::array();
  for (const engine::FoldError& fold : result.folds) {
    folds.push_back({{"samples", fold.samples},
                     {"k_error", fold.k},
                     {"v_error", fold.v},
                     {"v_error_rounded_once", fold.v_once},
                     {"v_drift", fold.v_drift},
                     {"sensitivity_error_max", fold.sensitivity}});
  }
  Json rows = Json::array();
  for (const engine::LearnFidelity& row : result.fidelity) {
    rows.push_back({{"block", row.block},
                    {"samples", row.samples},
                    {"recompute_share", row.share},
                    {"kl_mean", row.kl_mean},
                    {"top1", row.top1},
                    {"n", row.positions},
                    {"splice_ms", row.splice_ms},
                    {"break_even_uses", BreakEvenOf(result, row)}});
  }
  return {{"model", engine.model().info().name},
          {"tools", options.tools.size()},
          {"block_tokens", result.block_tokens},
          {"block_bytes_per_token", result.block_bytes},
          {"history_tokens", options.history_tokens},
          {"compile_contexts", options.compile_contexts},
          {"prefill_ms", result.prefill_ms},
          {"learn_ms", result.learn_ms},
          {"compile_ms", result.compile_ms},
          {"folds", std::move(folds)},
          {"splices", std::move(rows)}};
}

std::string Text(const char* format, double value) {
  char text[48];
  std::snprintf(text, sizeof text, format, value);
  return text;
}

void PrintResult(const engine::Engine& engine,
                 const engine::LearnBenchOptions& options,
                 const engine::LearnBenchResult& result) {
  std::printf(
      "%s: %zu tools, %s tokens, %s a token on disk\n"
      "one use by text prefill %s, one fold %s, one compile after %d contexts "
      "%s\n\n",
      engine.model().info().description.c_str(), options.tools.size(),
      FormatCount(result.block_tokens).c_str(),
      FormatBytes(static_cast<uint64_t>(result.block_bytes)).c_str(),
      FormatMs(result.prefill_ms).c_str(), FormatMs(result.learn_ms).c_str(),
      options.compile_contexts, FormatMs(result.compile_ms).c_str());
  Table splices({"block", "samples", "re-decoded", "KL", "top-1", "n", "splice",
                 "break-even"});
  for (const engine::LearnFidelity& row : result.fidelity) {
    splices.AddRow({row.block, FormatCount(row.samples),
                    Text("%.0f %%", 100 * row.share), Text("%.5f", row.kl_mean),
                    Text("%.3f", row.top1), FormatCount(row.positions),
                    FormatMs(row.splice_ms),
                    Text("%.2f uses", BreakEvenOf(result, row))});
  }
  Table folds({"folds into float16", "K error", "V error", "rounded once",
               "drift of V", "sensitivity"});
  for (const engine::FoldError& fold : result.folds) {
    folds.AddRow({FormatCount(fold.samples), Text("%.5f", fold.k),
                  Text("%.5f", fold.v), Text("%.5f", fold.v_once),
                  Text("%.3f", fold.v_drift),
                  Text("%.2f %%", 100 * fold.sensitivity)});
  }
  std::printf("%s\n%s", splices.Render().c_str(), folds.Render().c_str());
}

int RunLearn(const GlobalOptions& globals, engine::LearnBenchOptions options,
             int tool_count) {
  if (globals.store.empty()) {
    return Fail(InvalidArgumentError(
        "bench learn needs --store with a folder of its own: it fills a store "
        "with blocks that no conversation gave"));
  }
  auto source = LoadTools(globals);
  if (!source.ok()) return Fail(source.status());
  options.tools = std::move(source->tools);
  if (options.tools.size() > static_cast<size_t>(tool_count)) {
    options.tools.resize(static_cast<size_t>(tool_count));
  }
  auto engine = MakeEngine(globals);
  if (!engine.ok()) return Fail(engine.status());
  ProgressLine line("bench learn");
  options.progress = [&](const std::string& step) { line.Update(0, step); };
  options.cancel = &Interrupted();
  auto result = engine::RunLearnBench(**engine, options);
  line.Done();
  if (!result.ok()) return Fail(result.status());
  if (globals.json) {
    PrintJson(ResultJson(**engine, options, *result));
  } else {
    PrintResult(**engine, options, *result);
  }
  return kExitOk;
}

}  // namespace

void AddBenchLearn(CLI::App* bench, Action* action) {
  auto globals = std::make_shared<GlobalOptions>();
  CLI::App* command = bench->add_subcommand(
      "learn",
      "Learning from traffic: cost of a fold, break-even in uses, fidelity of "
      "learned blocks, rounding of the stored mean");
  auto options = std::make_shared<engine::LearnBenchOptions>();
  auto tools = std::make_shared<int>(3);
  command->add_option("-n,--tools-measured", *tools, "The first so many tools")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("--samples", options->samples, "Folded into each block")
      ->check(CLI::Range(2, 1000))
      ->capture_default_str();
  command
      ->add_option("--history-tokens", options->history_tokens,
                   "Longest history before the schema")
      ->check(CLI::Range(32, 1 << 16))
      ->capture_default_str();
  command
      ->add_option("--test-histories", options->test_histories,
                   "Histories behind which splices are compared with prefill")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  command
      ->add_option("--fidelity-tokens", options->fidelity_tokens,
                   "Positions compared behind each")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--contexts", options->compile_contexts,
                   "Compile contexts of the offline arm")
      ->check(CLI::Range(1, static_cast<int>(compile::CompileTexts().size())))
      ->capture_default_str();
  AddToolFlags(command, globals.get());
  AddModelFlags(command, globals.get());
  AddJsonFlag(command, globals.get());
  command->callback(
      [=] { *action = [=] { return RunLearn(*globals, *options, *tools); }; });
}

}  // namespace nexus::cli
