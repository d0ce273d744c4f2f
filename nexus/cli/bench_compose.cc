// nexus bench compose: what several spliced blocks side by side do to tool
// choice and arguments. nexus bench lists: what changing lists cost.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <utility>

#include "nexus/base/paired_stats.h"
#include "nexus/cli/bench_commands.h"
#include "nexus/cli/bench_json.h"
#include "nexus/cli/exit_code.h"
#include "nexus/cli/interrupt.h"
#include "nexus/cli/terminal.h"
#include "nexus/engine/compose_bench.h"
#include "nexus/engine/compose_summary.h"
#include "nexus/engine/list_trace.h"

namespace nexus::cli {
namespace {

using engine::ComposeStudy;

struct ComposeFlags {
  engine::ComposeBenchOptions bench;
  std::string queries_file;
  std::vector<std::string> arms = {"exact",      "alone:0",      "generic:0",
                                   "generic:15", "generic:25",   "generic:40",
                                   "given:25",   "given:25+top2"};
  std::string headline = "generic:25";
  std::string part = "1/1";
  std::string trials_file;
  std::vector<std::string> also;
  bool report_only = false;
  // Which of the flags above stand on the command line: a report takes the
  // others from the log.
  bool has_blocks = false;
  bool has_samples = false;
  bool has_arms = false;
};

// "2/3" -> 2, 3.
Status ParsePart(const std::string& text,
                 engine::ComposeBenchOptions* options) {
  const char* end = text.data() + text.size();
  const auto of_part = std::from_chars(text.data(), end, options->part);
  if (of_part.ec == std::errc() && of_part.ptr != end && *of_part.ptr == '/') {
    const auto of_parts = std::from_chars(of_part.ptr + 1, end, options->parts);
    if (of_parts.ec == std::errc() && of_parts.ptr == end &&
        options->part >= 1 && options->part <= options->parts) {
      return Status::Ok();
    }
  }
  return InvalidArgumentError("--part: '" + text +
                              "'; expected one as 2/3, the second of three");
}

double Percent(int count, int total) { return 100 * Share(count, total); }

void PrintCompose(const engine::ComposeBenchResult& result) {
  const engine::ComposeArmResult& reference = result.reference;
  std::printf(
      "%d lists of %d tools, %.0f tokens; %d questions, %d with known "
      "arguments\n\n"
      "%-18s %5s %7s %7s %7s %7s %8s %8s %6s %7s %8s\n",
      result.lists, result.blocks, result.list_tokens, reference.n,
      reference.n_args, "arm", "n", "choice", "args", "p", "same", "KL",
      "first KL", "top-1", "decoded", "list");
  std::printf("%-18s %5d %6.1f%% %6.1f%% %60s\n", reference.name.c_str(),
              reference.n, Percent(reference.choice_right, reference.n),
              Percent(reference.args_right, reference.n_args),
              FormatMs(reference.list_ms).c_str());
  for (const engine::ComposeArmResult& arm : result.arms) {
    std::printf(
        "%-18s %5d %6.1f%% %6.1f%% %7.3f %6.1f%% %8.4f %8.4f %6.2f %6.0f%% "
        "%8s\n",
        arm.name.c_str(), arm.n, Percent(arm.choice_right, arm.n),
        Percent(arm.args_right, arm.n_args), arm.mcnemar_p,
        Percent(arm.same, arm.n), arm.kl_mean, arm.first_kl, arm.first_top1,
        100 * arm.recompute_share, FormatMs(arm.list_ms).c_str());
  }
  for (const std::string& note : result.notes) {
    std::printf("note  %s\n", note.c_str());
  }
}

// Of the logs of `flags.also`: of the same model, lists as long, and blocks
// made alike, whatever the questions.
Result<engine::ComposeTrials> ReadOthers(const ComposeFlags& flags,
                                         const Json& identity) {
  engine::ComposeTrials trials;
  Json shared = identity;
  shared.erase("tools_and_queries");
  for (const std::string& path : flags.also) {
    NEXUS_ASSIGN_OR_RETURN(
        const engine::ComposeLog log,
        engine::ReadComposeLog(FileSystem::Default(), path, shared));
    trials.insert(log.trials().begin(), log.trials().end());
  }
  return trials;
}

// The log's own trials come before those of others.
Result<ComposeStudy> Joined(const ComposeFlags& flags,
                            const engine::ComposeLog& log,
                            engine::ComposeTrials others) {
  NEXUS_ASSIGN_OR_RETURN(ComposeStudy study,
                         engine::ComposeStudyOf(log, flags.trials_file));
  study.trials.merge(others);
  return study;
}

Result<ComposeStudy> Reported(const ComposeFlags& flags) {
  if (flags.trials_file.empty()) {
    return InvalidArgumentError(
        "bench compose: --report-only needs --trials FILE");
  }
  Json asked = Json::object();
  if (flags.has_blocks) asked["blocks"] = flags.bench.blocks;
  if (flags.has_samples) asked["samples"] = flags.bench.samples;
  NEXUS_ASSIGN_OR_RETURN(
      const engine::ComposeLog log,
      engine::ReadComposeLog(FileSystem::Default(), flags.trials_file, asked));
  NEXUS_ASSIGN_OR_RETURN(engine::ComposeTrials others,
                         ReadOthers(flags, log.identity()));
  return Joined(flags, log, std::move(others));
}

Result<ComposeStudy> Measured(const GlobalOptions& globals,
                              const ComposeFlags& flags,
                              engine::ComposeBenchOptions options) {
  NEXUS_ASSIGN_OR_RETURN(ToolSource source, LoadTools(globals));
  options.tools = std::move(source.tools);
  NEXUS_ASSIGN_OR_RETURN(options.queries,
                         engine::ReadComposeQueries(flags.queries_file));
  NEXUS_ASSIGN_OR_RETURN(const auto engine, MakeEngine(globals));
  const Json identity = engine::ComposeIdentity(*engine, options);
  // Before hours are measured: a wrong file is told at once.
  NEXUS_ASSIGN_OR_RETURN(engine::ComposeTrials others,
                         ReadOthers(flags, identity));
  NEXUS_ASSIGN_OR_RETURN(engine::ComposeLog log,
                         engine::OpenComposeLog(FileSystem::Default(),
                                                flags.trials_file, identity));
  ProgressLine line("bench compose");
  options.progress = [&](int done, int total, const std::string& step) {
    line.Update(static_cast<double>(done) / total,
                FormatCount(done) + " of " + FormatCount(total) + ", " + step);
  };
  options.cancel = &Interrupted();
  const Status status = engine::RunComposeBench(*engine, options, &log);
  line.Done();
  if (status.code() == StatusCode::kCancelled && !flags.trials_file.empty()) {
    return CancelledError(status.message() + "; they are kept in " +
                          flags.trials_file +
                          ", and the same command goes on from there");
  }
  NEXUS_RETURN_IF_ERROR(status);
  return Joined(flags, log, std::move(others));
}

int RunCompose(const GlobalOptions& globals, const ComposeFlags& flags) {
  engine::ComposeBenchOptions options = flags.bench;
  std::vector<std::string> arms = flags.arms;
  for (const std::string& text : arms) {
    auto arm = engine::ParseComposeArm(text);
    if (!arm.ok()) return Fail(arm.status());
    options.arms.push_back(*std::move(arm));
  }
  if (arms.empty()) {
    return Fail(InvalidArgumentError("bench compose: no arm to measure"));
  }
  if (!flags.report_only && flags.queries_file.empty()) {
    return Fail(InvalidArgumentError("bench compose: --queries is required"));
  }
  const Status part = ParsePart(flags.part, &options);
  if (!part.ok()) return Fail(part);
  const auto study =
      flags.report_only ? Reported(flags) : Measured(globals, flags, options);
  if (!study.ok()) return Fail(study.status());
  if (flags.report_only && !flags.has_arms) arms.clear();  // all that there are
  const engine::ComposeBenchResult result =
      engine::SummarizeCompose(study->trials, study->setting.blocks, arms);
  if (result.arms.empty()) {
    return Fail(NotFoundError(flags.trials_file + ": no trial of any arm yet"));
  }
  if (!globals.json) {
    PrintCompose(result);
    return kExitOk;
  }
  const bool has_headline =
      std::any_of(result.arms.begin(), result.arms.end(),
                  [&](const auto& arm) { return arm.name == flags.headline; });
  PrintJson(ComposeJson(
      result,
      {.model = study->setting.model_name,
       .samples = study->setting.samples,
       .headline = has_headline ? flags.headline : result.arms.back().name}));
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
  command->add_option("--queries", flags->queries_file,
                      "Questions with their answers, JSON lines: {\"query\", "
                      "\"gold\": [tool], \"args\": {param: [accepted]}}");
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
  command
      ->add_option("--trials", flags->trials_file,
                   "Keep the calls here, and go on from what is there")
      ->type_name("FILE");
  command
      ->add_option("--part", flags->part,
                   "Of the lists this part alone, as 2/3: for several machines "
                   "with a log each")
      ->capture_default_str();
  command
      ->add_option("--with", flags->also,
                   "Logs of further calls of this model with lists as long, "
                   "reported with these")
      ->type_name("FILE");
  command->add_flag("--report-only", flags->report_only,
                    "Ask nothing more: report what the logs hold. Needs no "
                    "model, tools or questions");
  AddToolFlags(command, globals.get());
  AddModelFlags(command, globals.get());
  AddJsonFlag(command, globals.get());
  command->footer(
      "Ctrl-C keeps what is asked; the same command goes on from there. The "
      "lists come in an order of their own, so that the first ones are a "
      "sample of all, and a larger --n goes on where a smaller one has ended.");
  command->callback([=] {
    flags->has_blocks = command->count("--blocks") > 0;
    flags->has_samples = command->count("--samples") > 0;
    flags->has_arms = command->count("--arms") > 0;
    *action = [=] { return RunCompose(*globals, *flags); };
  });
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
