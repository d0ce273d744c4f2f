// nexus bench: measurements that anybody can repeat.
#include <cstdio>

#include "nexus/cli/bench_commands.h"
#include "nexus/cli/commands.h"
#include "nexus/cli/exit_code.h"
#include "nexus/cli/interrupt.h"
#include "nexus/cli/terminal.h"
#include "nexus/engine/call_bench.h"
#include "nexus/engine/compile_tools.h"
#include "nexus/engine/ttft_bench.h"

namespace nexus::cli {
namespace {

struct TtftFlags {
  engine::TtftBenchOptions bench;
  RepairFlags repair;
};

double Ratio(double base, double arm) { return arm > 0 ? base / arm : 0; }

std::string RatioText(double ratio) {
  char text[32];
  std::snprintf(text, sizeof text, ratio >= 10 ? "%.0fx" : "%.1fx", ratio);
  return text;
}

Json TtftJson(const engine::Engine& engine,
              const engine::TtftBenchResult& result) {
  Json ttft = {{"prefill", result.prefill_ms},
               {"exact_prefix", result.exact_prefix_ms},
               {"splice", result.splice_ms}};
  // Each arm against the full prefill of the one schema; the last row's base is
  // the full prefill of all schemas against the splice of the routed one.
  Json ratio = {
      {"splice", Ratio(result.prefill_ms, result.splice_ms)},
      {"exact_prefix", Ratio(result.prefill_ms, result.exact_prefix_ms)}};
  if (result.all_schemas_ms > 0) {
    ttft["all_schemas"] = result.all_schemas_ms;
    ratio["all_schemas"] = Ratio(result.all_schemas_ms, result.splice_ms);
  } else {
    ttft["all_schemas"] = nullptr;
    ratio["all_schemas"] = nullptr;
  }
  const bool measured = result.kl_positions > 0;
  return {{"model", engine.model().info().name},
          {"tool", result.tool},
          {"n_past", result.past_tokens},
          {"schema_tokens", result.schema_tokens},
          {"query_tokens", result.query_tokens},
          {"preamble_tokens", result.preamble_tokens},
          {"all_schemas_tokens", result.all_schemas_tokens},
          {"ttft_ms", std::move(ttft)},
          {"ratio", std::move(ratio)},
          {"splice_ms",
           {{"lookup", result.lookup_ms},
            {"write", result.write_ms},
            {"repair", result.repair_ms},
            {"decode", result.decode_ms}}},
          {"recompute_share", result.recompute_share},
          {"kl_mean", measured ? Json(result.kl_mean) : Json(nullptr)},
          {"kl_noise_floor",
           measured ? Json(result.kl_noise_floor) : Json(nullptr)},
          {"top1", measured ? Json(result.top1) : Json(nullptr)},
          {"kl_positions", result.kl_positions},
          {"memory",
           {{"block_bytes", result.block_bytes},
            {"staging_bytes", result.staging_bytes},
            {"added_bytes", result.added_bytes}}},
          {"prefill_setting", result.prefill_setting},
          {"n", result.runs},
          {"n_all_schemas", result.all_schemas_runs}};
}

void PrintTtft(const engine::Engine& engine,
               const engine::TtftBenchResult& result) {
  std::printf(
      "%s, %s\n%d tokens of history in the context, then a schema of %d, a "
      "question of %d and %d forced.\nMedian time to the first token of the "
      "arguments, %d interleaved runs:\n\n",
      engine.model().info().description.c_str(), result.tool.c_str(),
      result.past_tokens, result.schema_tokens, result.query_tokens,
      result.preamble_tokens, result.runs);
  std::vector<Bar> bars = {
      {"full prefill", result.prefill_ms, FormatMs(result.prefill_ms)},
      {"splice", result.splice_ms,
       FormatMs(result.splice_ms) + "  " +
           RatioText(Ratio(result.prefill_ms, result.splice_ms))},
      {"exact prefix", result.exact_prefix_ms,
       FormatMs(result.exact_prefix_ms) + "  " +
           RatioText(Ratio(result.prefill_ms, result.exact_prefix_ms))}};
  std::printf("%s\n", RenderBars(bars).c_str());
  std::printf(
      "The splice: look-up and mapping %s, rotation and writing %s (%.2f %% of "
      "the prefill),\nrepair %s (%.0f %% re-decoded), question and call %s.\n",
      FormatMs(result.lookup_ms).c_str(), FormatMs(result.write_ms).c_str(),
      100 * Ratio(result.lookup_ms + result.write_ms, result.prefill_ms),
      FormatMs(result.repair_ms).c_str(), 100 * result.recompute_share,
      FormatMs(result.decode_ms).c_str());
  if (result.kl_positions > 0) {
    std::printf(
        "Fidelity over %d tokens: KL %.4f nats (noise floor %.4f), top-1 %.1f "
        "%%.\n",
        result.kl_positions, result.kl_mean, result.kl_noise_floor,
        100 * result.top1);
  }
  if (result.all_schemas_ms > 0) {
    std::printf(
        "All %d schemas in the prompt (%s tokens): %s, %s the splice.\n",
        result.tool_count, FormatCount(result.all_schemas_tokens).c_str(),
        FormatMs(result.all_schemas_ms).c_str(),
        RatioText(Ratio(result.all_schemas_ms, result.splice_ms)).c_str());
  }
}

int RunTtft(const GlobalOptions& globals, const TtftFlags& flags) {
  auto splice = ParseRepairFlags(flags.repair);
  if (!splice.ok()) return Fail(splice.status());
  engine::TtftBenchOptions options = flags.bench;
  options.splice = *splice;
  if (!globals.mcp_files.empty() || !globals.tools_file.empty()) {
    auto source = LoadTools(globals);
    if (!source.ok()) return Fail(source.status());
    options.tools = std::move(source->tools);
  }
  auto engine = MakeEngine(globals);
  if (!engine.ok()) return Fail(engine.status());
  ProgressLine line("bench ttft");
  double share = 0;
  options.progress = [&](const std::string& step) {
    share += (1 - share) * 0.15;
    line.Update(share, step);
  };
  options.cancel = &Interrupted();
  auto result = engine::RunTtftBench(**engine, options);
  line.Done();
  if (!result.ok()) return Fail(result.status());
  if (globals.json) {
    PrintJson(TtftJson(**engine, *result));
  } else {
    PrintTtft(**engine, *result);
  }
  return kExitOk;
}

int RunCalls(const GlobalOptions& globals, engine::CallBenchOptions options) {
  auto source = LoadTools(globals);
  if (!source.ok()) return Fail(source.status());
  options.tools = std::move(source->tools);
  auto engine = MakeEngine(globals);
  if (!engine.ok()) return Fail(engine.status());
  ProgressLine line("bench calls");
  options.progress = [&](int done, int total) {
    line.Update(static_cast<double>(done) / total,
                FormatCount(done) + " of " + FormatCount(total));
  };
  options.cancel = &Interrupted();
  auto result = engine::RunCallBench(**engine, options);
  line.Done();
  if (!result.ok()) return Fail(result.status());
  if (globals.json) {
    PrintJson({{"model", (*engine)->model().info().name},
               {"n", result->calls},
               {"json_objects", result->json_objects},
               {"valid", result->valid},
               {"repaired", result->repaired},
               {"closed_at_limit", result->closed_at_limit},
               {"relaxed_tools", result->relaxed_tools},
               {"sampled_tokens", result->sampled_tokens},
               {"invalid", result->invalid}});
  } else {
    std::printf(
        "%d calls: %d JSON objects, %d valid against their schema (%d after "
        "the "
        "repair round, %d closed at the limit)\n",
        result->calls, result->json_objects, result->valid, result->repaired,
        result->closed_at_limit);
    for (const std::string& line_text : result->invalid) {
      std::printf("invalid  %s\n", line_text.c_str());
    }
  }
  return kExitOk;
}

void AddTtft(CLI::App* bench, Action* action) {
  auto globals = std::make_shared<GlobalOptions>();
  CLI::App* command = bench->add_subcommand(
      "ttft",
      "Time to first token: full prefill, exact prefix, splice, all "
      "schemas, in one run over the same tokens");
  auto flags = std::make_shared<TtftFlags>();
  engine::TtftBenchOptions& options = flags->bench;
  command
      ->add_option("--n-past", options.past_tokens,
                   "Tokens in the context before the schema")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command
      ->add_option("--schema-tokens", options.schema_tokens,
                   "Wished size of the schema block")
      ->check(CLI::Range(64, 1 << 16))
      ->capture_default_str();
  command
      ->add_option("--query-tokens", options.query_tokens,
                   "Tokens of the user's turn")
      ->check(CLI::Range(16, 1 << 16))
      ->capture_default_str();
  command->add_option("--runs", options.runs, "Counted runs of each arm")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--all-schemas-runs", options.all_schemas_runs,
                   "Runs with every schema in the prompt; 0 leaves it out")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  command
      ->add_option("--fidelity-tokens", options.fidelity_tokens,
                   "Positions at which the splice is compared with prefill; 0 "
                   "leaves it out")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  command
      ->add_option("--contexts", options.contexts,
                   "Compile contexts, where the block isn't compiled yet")
      ->check(CLI::Range(1, static_cast<int>(compile::CompileTexts().size())))
      ->capture_default_str();
  AddRepairFlags(command, &flags->repair);
  AddToolFlags(command, globals.get());
  AddModelFlags(command, globals.get());
  AddJsonFlag(command, globals.get());
  command->callback(
      [=] { *action = [=] { return RunTtft(*globals, *flags); }; });
}

void AddCalls(CLI::App* bench, Action* action) {
  auto globals = std::make_shared<GlobalOptions>();
  CLI::App* command = bench->add_subcommand(
      "calls",
      "Generate calls for every tool and validate each against its "
      "schema");
  auto options = std::make_shared<engine::CallBenchOptions>();
  auto mode = std::make_shared<std::string>("schema");
  command->add_option("-n,--calls", options->calls, "Calls to generate")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command->add_option("--mode", *mode, "schema or ir")
      ->check(CLI::IsMember({"schema", "ir"}))
      ->capture_default_str();
  command->add_option("--max-tokens", options->max_tokens, "Longest call")
      ->check(CLI::Range(16, 1 << 16))
      ->capture_default_str();
  AddToolFlags(command, globals.get());
  AddModelFlags(command, globals.get());
  AddJsonFlag(command, globals.get());
  command->callback([=] {
    *action = [=] {
      engine::CallBenchOptions chosen = *options;
      chosen.mode = *mode == "ir" ? engine::ArgumentMode::kIr
                                  : engine::ArgumentMode::kSchema;
      return RunCalls(*globals, std::move(chosen));
    };
  });
}

}  // namespace

void AddBenchCommand(CLI::App* app, Action* action) {
  CLI::App* bench = app->add_subcommand(
      "bench", "Measure on this machine, with ratios in one run");
  bench->require_subcommand(1);
  AddTtft(bench, action);
  AddCalls(bench, action);
  AddBenchFidelity(bench, action);
  AddBenchNextTurn(bench, action);
  AddBenchScan(bench, action);
  AddBenchCompose(bench, action);
  AddBenchLists(bench, action);
  AddBenchDeterminism(bench, action);
  AddBenchLearn(bench, action);
}

}  // namespace nexus::cli
