// nexus bench next-turn: what idle work is worth to the turn after.
#include <cstdio>

#include "nexus/base/paired_stats.h"
#include "nexus/cli/bench_commands.h"
#include "nexus/cli/exit_code.h"
#include "nexus/cli/interrupt.h"
#include "nexus/cli/terminal.h"
#include "nexus/engine/next_turn_bench.h"

namespace nexus::cli {
namespace {

struct NextTurnFlags {
  std::string conversations;
  int replay = 4;
};

int Run(const GlobalOptions& globals, const NextTurnFlags& flags) {
  auto source = LoadTools(globals);
  if (!source.ok()) return Fail(source.status());
  engine::NextTurnBenchOptions options;
  options.tools = std::move(source->tools);
  auto conversations = engine::ReadConversations(flags.conversations);
  if (!conversations.ok()) return Fail(conversations.status());
  options.conversations = std::move(*conversations);
  options.replay = flags.replay;
  auto engine = MakeEngine(globals);
  if (!engine.ok()) return Fail(engine.status());
  ProgressLine line("bench next-turn");
  options.progress = [&](int done, int total) {
    line.Update(static_cast<double>(done) / total,
                FormatCount(done) + " of " + FormatCount(total) +
                    " conversations replayed");
  };
  options.cancel = &Interrupted();
  auto result = engine::RunNextTurnBench(**engine, options);
  line.Done();
  if (!result.ok()) return Fail(result.status());
  const double ratio = result->ttft_idle_ms > 0
                           ? result->ttft_no_idle_ms / result->ttft_idle_ms
                           : 0;
  if (globals.json) {
    PrintJson(
        {{"model", (*engine)->model().info().name},
         {"conversations", result->conversations},
         {"next_turns", result->next_turns},
         {"foreseen", Share(result->foreseen, result->next_turns)},
         {"same_tool", Share(result->same_tool, result->next_turns)},
         {"replayed_turns", result->replayed_turns},
         {"exact_prefix", Share(result->exact_prefix, result->replayed_turns)},
         {"ttft_ms",
          {{"idle_work", result->ttft_idle_ms},
           {"none", result->ttft_no_idle_ms}}},
         {"ratio", ratio},
         {"longest_piece_ms", result->longest_piece_ms},
         {"idle_tokens", result->idle_tokens}});
    return kExitOk;
  }
  std::printf(
      "%d conversations, %d turns that follow a call: the forecast named the "
      "tool of %.0f %%\n(the same tool again: %.0f %%).\n",
      result->conversations, result->next_turns,
      100 * Share(result->foreseen, result->next_turns),
      100 * Share(result->same_tool, result->next_turns));
  if (result->replayed_turns > 0) {
    std::printf(
        "Replayed %d of them: %.0f %% found their schema exact; median TTFT %s "
        "with idle work, %s without (%.1fx).\nLongest piece of idle work: "
        "%s.\n",
        result->replayed_turns,
        100 * Share(result->exact_prefix, result->replayed_turns),
        FormatMs(result->ttft_idle_ms).c_str(),
        FormatMs(result->ttft_no_idle_ms).c_str(), ratio,
        FormatMs(result->longest_piece_ms).c_str());
  }
  return kExitOk;
}

}  // namespace

void AddBenchNextTurn(CLI::App* bench, Action* action) {
  auto globals = std::make_shared<GlobalOptions>();
  auto flags = std::make_shared<NextTurnFlags>();
  CLI::App* command =
      bench->add_subcommand("next-turn",
                            "Replay conversations: how often idle work has the "
                            "next schema ready, and "
                            "what that saves");
  command
      ->add_option("--conversations", flags->conversations,
                   "JSON lines of {\"turns\": [{\"user\", \"tool\", "
                   "\"arguments\", \"result\"}]}")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--replay", flags->replay,
                   "Conversations to run on the model, the longest ones")
      ->check(CLI::Range(0, 100000))
      ->capture_default_str();
  AddToolFlags(command, globals.get());
  AddModelFlags(command, globals.get());
  AddJsonFlag(command, globals.get());
  command->callback([=] { *action = [=] { return Run(*globals, *flags); }; });
}

}  // namespace nexus::cli
