// nexus bench determinism: the same bytes alone and beside others?
#include <cstdio>

#include "nexus/cli/bench_commands.h"
#include "nexus/cli/bench_json.h"
#include "nexus/cli/exit_code.h"
#include "nexus/cli/interrupt.h"
#include "nexus/cli/terminal.h"
#include "nexus/engine/determinism_bench.h"

namespace nexus::cli {
namespace {

void PrintResult(const engine::Engine& engine,
                 const engine::DeterminismResult& result) {
  std::printf("%s, flash attention %s\n\n",
              engine.model().info().description.c_str(),
              engine.attention().flash_attention ? "on" : "off");
  Table table({"session", "tool", "steps", "rows", "logits SHA-256"});
  for (const engine::DeterminismSession& session : result.sessions) {
    table.AddRow({session.name, OneLine(session.tool),
                  std::to_string(session.steps),
                  FormatCount(session.alone.rows),
                  ToHex(session.alone.logits_sha256).substr(0, 16)});
  }
  std::printf("%s\n", table.Render().c_str());
  std::printf(
      "Alone against %d interleaved order%s and %d concurrent round%s, %s rows "
      "of logits:\ntokens %s, logits %s. All sessions: %s\n",
      result.orders, result.orders == 1 ? "" : "s", result.concurrent_rounds,
      result.concurrent_rounds == 1 ? "" : "s",
      FormatCount(result.rows_compared).c_str(),
      result.tokens_equal ? "equal" : "DIFFERENT",
      result.logits_hash_equal ? "equal" : "DIFFERENT",
      OverallHash(result).c_str());
  for (const std::string& difference : result.differences) {
    std::printf("  %s\n", difference.c_str());
  }
  std::printf(
      "Control, two conversations in one context: logits %s (largest "
      "difference %.2g).\n",
      result.shared_context.logits_hash_equal ? "equal" : "different",
      result.shared_context.largest_difference);
}

int RunDeterminism(const GlobalOptions& globals,
                   engine::DeterminismOptions options) {
  if (!globals.mcp_files.empty() || !globals.tools_file.empty()) {
    auto source = LoadTools(globals);
    if (!source.ok()) return Fail(source.status());
    options.tools = std::move(source->tools);
  }
  auto engine = MakeEngine(globals);
  if (!engine.ok()) return Fail(engine.status());
  ProgressLine line("bench determinism");
  options.progress = [&](double share, const std::string& step) {
    line.Update(share, step);
  };
  options.cancel = &Interrupted();
  auto result = engine::RunDeterminismBench(**engine, options);
  line.Done();
  if (!result.ok()) return Fail(result.status());
  if (globals.json) {
    PrintJson(DeterminismJson(
        {.model = (*engine)->model().info().name,
         .flash_attention = (*engine)->attention().flash_attention,
         .threads = (*engine)->options().threads},
        *result));
  } else {
    PrintResult(**engine, *result);
  }
  return result->tokens_equal && result->logits_hash_equal ? kExitOk
                                                           : kExitInternal;
}

}  // namespace

void AddBenchDeterminism(CLI::App* bench, Action* action) {
  auto globals = std::make_shared<GlobalOptions>();
  CLI::App* command = bench->add_subcommand(
      "determinism",
      "Tokens and logits of sessions that run alone, interleaved and at once, "
      "bit for bit; exit code 1 when they differ");
  auto options = std::make_shared<engine::DeterminismOptions>();
  command->add_option("--sessions", options->sessions, "Sessions")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  command
      ->add_option("--orders", options->orders,
                   "Random interleavings on one thread")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  command
      ->add_option("--concurrent-rounds", options->concurrent_rounds,
                   "Runs of all sessions at once, a thread each")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  command
      ->add_option("--generated-tokens", options->shape.generated_tokens,
                   "Tokens generated in each turn")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Of the interleavings")
      ->capture_default_str();
  AddToolFlags(command, globals.get());
  AddModelFlags(command, globals.get());
  AddJsonFlag(command, globals.get());
  command->callback(
      [=] { *action = [=] { return RunDeterminism(*globals, *options); }; });
}

}  // namespace nexus::cli
