// nexus bench compose: what several spliced blocks side by side do to tool
// choice and arguments. nexus bench lists: what changing lists cost.
#include <algorithm>
#include <cstdio>

#include "nexus/cli/bench_commands.h"
#include "nexus/cli/exit_code.h"
#include "nexus/cli/interrupt.h"
#include "nexus/cli/terminal.h"
#include "nexus/engine/compose_bench.h"
#include "nexus/engine/list_trace.h"

namespace nexus::cli {
namespace {

struct ComposeFlags {
  engine::ComposeBenchOptions bench;
  std::string queries_file;
  std::vector<std::string> arms = {"exact",      "alone:0",      "generic:0",
                                   "generic:15", "generic:25",   "generic:40",
                                   "given:25",   "given:25+top2"};
  std::string headline = "generic:25";
};

Json IntervalJson(const Interval& interval) {
  return Json::array({interval.low, interval.high});
}

double Share(int count, int total) {
  return total > 0 ? static_cast<double>(count) / total : 0;
}

Json ArmJson(const engine::ComposeArmResult& arm) {
  return {{"arm", arm.name},
          {"n", arm.n},
          {"n_args", arm.n_args},
          {"tool_choice", Share(arm.choice_right, arm.n)},
          {"tool_choice_ci95", IntervalJson(arm.choice_ci95)},
          {"args_exact", Share(arm.args_right, arm.n_args)},
          {"args_exact_ci95", IntervalJson(arm.args_ci95)},
          {"mcnemar_p", arm.mcnemar_p},
          {"ci95", IntervalJson(arm.difference_ci95)},
          {"args_mcnemar_p", arm.args_mcnemar_p},
          {"args_ci95", IntervalJson(arm.args_difference_ci95)},
          {"same_choice", Share(arm.same_choice, arm.n)},
          {"same", Share(arm.same, arm.n)},
          {"kl_mean", arm.kl_mean},
          {"kl_p99", arm.kl_p99},
          {"first_kl", arm.first_kl},
          {"first_top1", arm.first_top1},
          {"recompute_share", arm.recompute_share},
          {"list_ms", arm.list_ms}};
}

Json ComposeJson(const engine::Engine& engine,
                 const engine::ComposeBenchResult& result,
                 const engine::ComposeArmResult& headline, int samples) {
  const engine::ComposeArmResult& reference = result.reference;
  Json arms = Json::array();
  for (const engine::ComposeArmResult& arm : result.arms) {
    arms.push_back(ArmJson(arm));
  }
  return {{"model", engine.model().info().name},
          {"blocks", result.blocks},
          {"n", reference.n},
          {"lists", result.lists},
          {"list_tokens", result.list_tokens},
          {"samples", samples},
          {"headline", headline.name},
          {"tool_choice",
           {{"prefill", Share(reference.choice_right, reference.n)},
            {"splice", Share(headline.choice_right, headline.n)}}},
          {"args_exact",
           {{"prefill", Share(reference.args_right, reference.n_args)},
            {"splice", Share(headline.args_right, headline.n_args)}}},
          {"mcnemar_p", headline.mcnemar_p},
          {"ci95", IntervalJson(headline.difference_ci95)},
          {"kl_mean", headline.kl_mean},
          {"first_kl", headline.first_kl},
          {"same", Share(headline.same, headline.n)},
          {"prefill_list_ms", reference.list_ms},
          {"arms", std::move(arms)},
          {"notes", result.notes}};
}

void PrintCompose(const engine::ComposeBenchResult& result) {
  const engine::ComposeArmResult& reference = result.reference;
  std::printf(
      "%d lists of %d tools, %.0f tokens; %d questions, %d with known "
      "arguments\n\n"
      "%-18s %7s %7s %7s %7s %8s %8s %6s %7s %8s\n",
      result.lists, result.blocks, result.list_tokens, reference.n,
      reference.n_args, "arm", "choice", "args", "p", "same", "KL", "first KL",
      "top-1", "decoded", "list");
  const auto print = [](const engine::ComposeArmResult& arm) {
    std::printf(
        "%-18s %6.1f%% %6.1f%% %7.3f %6.1f%% %8.4f %8.4f %6.2f %6.0f%% %8s\n",
        arm.name.c_str(), 100 * Share(arm.choice_right, arm.n),
        100 * Share(arm.args_right, arm.n_args), arm.mcnemar_p,
        100 * Share(arm.same, arm.n), arm.kl_mean, arm.first_kl, arm.first_top1,
        100 * arm.recompute_share, FormatMs(arm.list_ms).c_str());
  };
  std::printf("%-18s %6.1f%% %6.1f%% %60s\n", reference.name.c_str(),
              100 * Share(reference.choice_right, reference.n),
              100 * Share(reference.args_right, reference.n_args),
              FormatMs(reference.list_ms).c_str());
  for (const engine::ComposeArmResult& arm : result.arms) print(arm);
  for (const std::string& note : result.notes) {
    std::printf("note  %s\n", note.c_str());
  }
}

int RunCompose(const GlobalOptions& globals, const ComposeFlags& flags) {
  engine::ComposeBenchOptions options = flags.bench;
  bool has_headline = false;
  for (const std::string& text : flags.arms) {
    auto arm = engine::ParseComposeArm(text);
    if (!arm.ok()) return Fail(arm.status());
    has_headline = has_headline || text == flags.headline;
    options.arms.push_back(*std::move(arm));
  }
  if (options.arms.empty()) {
    return Fail(InvalidArgumentError("bench compose: no arm to measure"));
  }
  const std::string headline =
      has_headline ? flags.headline : options.arms.back().name;
  auto source = LoadTools(globals);
  if (!source.ok()) return Fail(source.status());
  options.tools = std::move(source->tools);
  auto queries = engine::ReadComposeQueries(flags.queries_file);
  if (!queries.ok()) return Fail(queries.status());
  options.queries = *std::move(queries);
  auto engine = MakeEngine(globals);
  if (!engine.ok()) return Fail(engine.status());
  ProgressLine line("bench compose");
  options.progress = [&](int done, int total, const std::string& step) {
    line.Update(static_cast<double>(done) / total,
                FormatCount(done) + " of " + FormatCount(total) + ", " + step);
  };
  options.cancel = &Interrupted();
  auto result = engine::RunComposeBench(**engine, options);
  line.Done();
  if (!result.ok()) return Fail(result.status());
  if (globals.json) {
    const auto of =
        std::find_if(result->arms.begin(), result->arms.end(),
                     [&](const auto& arm) { return arm.name == headline; });
    PrintJson(ComposeJson(**engine, *result, *of, options.samples));
  } else {
    PrintCompose(*result);
  }
  return kExitOk;
}

int RunLists(const GlobalOptions& globals,
             const engine::ListTraceOptions& flags,
             const std::vector<int>& sizes) {
  auto source = LoadTools(globals);
  if (!source.ok()) return Fail(source.status());
  auto engine = MakeEngine(globals);
  if (!engine.ok()) return Fail(engine.status());
  Json rows = Json::array();
  for (const int size : sizes) {
    engine::ListTraceOptions options = flags;
    options.tools = size;
    if (static_cast<size_t>(size) > source->tools.size()) {
      return Fail(InvalidArgumentError(
          "bench lists: " + std::to_string(size) + " tools asked for, " +
          std::to_string(source->tools.size()) + " are there"));
    }
    const auto tools =
        std::span(source->tools).first(static_cast<size_t>(size));
    const auto trace = engine::MakeListTrace(options);
    for (const engine::ListOrder order :
         {engine::ListOrder::kCaller, engine::ListOrder::kName,
          engine::ListOrder::kStableFirst}) {
      auto cost =
          engine::CountListTrace((*engine)->planner(), tools, trace, order);
      if (!cost.ok()) return Fail(cost.status());
      const auto total = static_cast<double>(cost->total_tokens);
      rows.push_back(
          {{"tools", size},
           {"order", engine::ListOrderName(order)},
           {"requests", trace.size()},
           {"list_tokens", total / static_cast<double>(trace.size())},
           {"decoded_share_session",
            static_cast<double>(cost->decoded_with_session) / total},
           {"decoded_share_trie",
            static_cast<double>(cost->decoded_with_trie) / total},
           {"stored_tokens", cost->stored_tokens}});
    }
  }
  if (globals.json) {
    PrintJson({{"model", (*engine)->model().info().name},
               {"skew", flags.skew},
               {"shuffle", flags.shuffle_rate},
               {"seed", flags.seed},
               {"rows", std::move(rows)}});
    return kExitOk;
  }
  std::printf(
      "Share of the lists' tokens that is decoded when every request changes "
      "its list:\n\n%5s %-13s %9s %16s %12s %14s\n",
      "tools", "order", "tokens", "own cells only", "with trie", "trie holds");
  for (const Json& row : rows) {
    std::printf("%5d %-13s %9.0f %15.1f%% %11.1f%% %14s\n",
                row["tools"].get<int>(),
                row["order"].get<std::string>().c_str(),
                row["list_tokens"].get<double>(),
                100 * row["decoded_share_session"].get<double>(),
                100 * row["decoded_share_trie"].get<double>(),
                FormatCount(row["stored_tokens"].get<int64_t>()).c_str());
  }
  return kExitOk;
}

}  // namespace

void AddBenchCompose(CLI::App* bench, Action* action) {
  auto globals = std::make_shared<GlobalOptions>();
  CLI::App* command = bench->add_subcommand(
      "compose",
      "Several blocks side by side: tool choice and arguments against full "
      "prefill and against known answers");
  auto flags = std::make_shared<ComposeFlags>();
  engine::ComposeBenchOptions& options = flags->bench;
  command->add_option("--blocks", options.blocks, "Tools in a list")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command->add_option("-n,--n", options.n, "Questions")
      ->check(CLI::Range(1, 1000000))
      ->capture_default_str();
  command
      ->add_option("--queries", flags->queries_file,
                   "Questions with their answers, JSON lines: {\"query\", "
                   "\"gold\": [tool], \"args\": {param: [accepted]}}")
      ->required();
  command
      ->add_option("--arms", flags->arms,
                   "What to compare: exact, or RECIPE:PERCENT[+gold|+topK] "
                   "with the recipes alone, generic, given")
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option("--headline", flags->headline,
                   "The arm that the output's first fields are of; else the "
                   "last")
      ->capture_default_str();
  command
      ->add_option("--samples", options.samples, "Compile contexts of a recipe")
      ->check(CLI::Range(1, 8))
      ->capture_default_str();
  command
      ->add_option("--max-tokens", options.max_argument_tokens,
                   "Longest arguments")
      ->check(CLI::Range(16, 4096))
      ->capture_default_str();
  AddToolFlags(command, globals.get());
  AddModelFlags(command, globals.get());
  AddJsonFlag(command, globals.get());
  command->callback(
      [=] { *action = [=] { return RunCompose(*globals, *flags); }; });
}

void AddBenchLists(CLI::App* bench, Action* action) {
  auto globals = std::make_shared<GlobalOptions>();
  CLI::App* command = bench->add_subcommand(
      "lists",
      "Lists of tools that change from request to request: what each order of "
      "the tools makes one decode again");
  auto options = std::make_shared<engine::ListTraceOptions>();
  auto sizes = std::make_shared<std::vector<int>>(std::vector<int>{5, 20, 36});
  command
      ->add_option("--sizes", *sizes,
                   "Numbers of tools, the first of those given")
      ->delimiter(',')
      ->check(CLI::Range(2, 1000))
      ->capture_default_str();
  command->add_option("--requests", options->requests, "Lists in the trace")
      ->check(CLI::Range(2, 100000))
      ->capture_default_str();
  command
      ->add_option("--skew", options->skew,
                   "Share of the changes that the most changing fifth of the "
                   "tools makes; 0.2: all alike")
      ->check(FiniteRange(0, 1))
      ->capture_default_str();
  command
      ->add_option("--shuffle", options->shuffle_rate,
                   "Share of the requests whose caller lists everything in "
                   "another order")
      ->check(FiniteRange(0, 1))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Of the trace")
      ->capture_default_str();
  AddToolFlags(command, globals.get());
  AddModelFlags(command, globals.get());
  AddJsonFlag(command, globals.get());
  command->callback(
      [=] { *action = [=] { return RunLists(*globals, *options, *sizes); }; });
}

}  // namespace nexus::cli
