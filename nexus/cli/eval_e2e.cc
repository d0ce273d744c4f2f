// nexus eval e2e: the router and the argument generator together, against every
// schema in the prompt.
#include <cstdio>
#include <filesystem>
#include <memory>

#include "nexus/base/file_system.h"
#include "nexus/cli/encoder_memory.h"
#include "nexus/cli/eval_commands.h"
#include "nexus/cli/exit_code.h"
#include "nexus/cli/interrupt.h"
#include "nexus/cli/terminal.h"
#include "nexus/engine/e2e_summary.h"

namespace nexus::cli {
namespace {

struct EvalE2eFlags {
  std::string queries;
  eval::QueryFilter filter;
  std::vector<std::string> modes = {"schema"};
  std::string pool;
  int pool_size = 0;
  int baseline = 0;
  int max_tokens = 512;
  bool words_only = false;
  std::string trials;
  std::string cache;
  EvalOutput output;
};

struct Outcome {
  std::string model;
  std::string gate;
  engine::E2eStudy study;
};

Result<Outcome> RunStudy(GlobalOptions globals, const EvalE2eFlags& flags) {
  Outcome outcome;
  NEXUS_ASSIGN_OR_RETURN(auto tools,
                         schema::ReadRegistryFile(globals.tools_file));
  NEXUS_ASSIGN_OR_RETURN(auto queries, eval::ReadQueryFile(flags.queries));
  eval::QueryFilter filter = flags.filter;
  filter.limit = 0;
  NEXUS_ASSIGN_OR_RETURN(
      auto tasks, eval::ResolveArgumentTasks(
                      tools, eval::FilterQueries(std::move(queries), filter)));
  eval::DrawTasks(flags.filter.limit, flags.filter.seed, &tasks.tasks);
  NoteLeftOut(tasks);

  EncoderMemory encoder;
  RerankerMemory reranker;
  engine::E2eOptions options;
  outcome.gate = "words only (BM25)";
  if (!flags.words_only) {
    NEXUS_ASSIGN_OR_RETURN(globals.encoder, FindEncoder(globals));
    NEXUS_ASSIGN_OR_RETURN(
        encoder,
        LoadEncoderMemory(globals.encoder, globals.threads, flags.cache));
    RouterGate gate = CalibrateOptions(globals, globals.encoder,
                                       *encoder.encoder, &options.route.router);
    NEXUS_RETURN_IF_ERROR(gate.problem);
    outcome.gate = std::move(gate.text);
    NEXUS_ASSIGN_OR_RETURN(
        reranker,
        LoadRerankerMemory(gate.reranker, globals.threads, flags.cache));
  }
  eval::RouteStudyModels models;
  models.encoder = encoder.memo.get();
  models.reranker = reranker.memo.get();

  NEXUS_ASSIGN_OR_RETURN(const auto engine, MakeEngine(globals));
  outcome.model = engine->model().info().name;
  NEXUS_ASSIGN_OR_RETURN(
      engine::ArgumentLog log,
      engine::OpenArgumentLog(FileSystem::Default(), flags.trials, *engine));
  NEXUS_ASSIGN_OR_RETURN(
      const auto runner,
      engine::ArgumentRunner::Create(engine.get(), &log, flags.max_tokens));
  const CancelOnInterrupt cancel(&runner->session().context());

  options.route.pool =
      eval::ParsePoolKind(flags.pool).value_or(eval::PoolKind::kAll);
  if (flags.pool_size > 0) options.route.sizes = {flags.pool_size};
  options.route.seeds = 1;
  options.route.latency_queries = 0;
  options.route.cancel = &Interrupted();
  options.forms = FormsOf(flags.modes);
  options.baseline_queries = flags.baseline;
  options.cancel = &Interrupted();
  ProgressLine line("eval e2e");
  const auto start = std::chrono::steady_clock::now();
  options.route.query_progress = [&](int done, int total) {
    line.Update(0,
                "routing " + FormatCount(done) + " of " + FormatCount(total));
  };
  options.progress = [&](const engine::ArgumentStudyProgress& progress) {
    line.Update(
        static_cast<double>(progress.done) / std::max(progress.total, 1),
        ProgressNote(progress, "queries", start));
  };
  auto study = engine::RunE2eStudy(*engine, *runner, std::move(tools),
                                   std::move(tasks.tasks), models, options);
  line.Done();
  encoder.Save();
  reranker.Save();
  if (!study.ok()) return study.status();
  outcome.study = *std::move(study);
  return outcome;
}

int Run(const GlobalOptions& globals, const EvalE2eFlags& flags) {
  const auto outcome = RunStudy(globals, flags);
  if (!outcome.ok()) {
    NoteTrials(outcome.status(), flags.trials);
    return Fail(outcome.status());
  }
  const engine::E2eStudy& study = outcome->study;
  for (const std::string& warning : study.warnings) Note(OneLine(warning));
  const engine::E2eSummary summary = engine::SummarizeE2e(study);
  if (globals.json) {
    Json json = engine::E2eJson(study, summary);
    json["model"] = outcome->model;
    json["gate"] = outcome->gate;
    json["pool"] = flags.pool.empty() ? "all" : flags.pool;
    PrintJson(json);
    return kExitOk;
  }
  const auto name = [](const std::filesystem::path& path) {
    return OneLine(path.filename().string());
  };
  std::printf("%s%s, %s, %s: %d queries over %d tools (%s), %s\n\n",
              flags.output.markdown ? "# nexus eval e2e\n\n" : "",
              OneLine(outcome->model).c_str(), name(globals.tools_file).c_str(),
              name(flags.queries).c_str(), summary.n, summary.pool_tools,
              flags.pool.empty() ? "all" : flags.pool.c_str(),
              outcome->gate.c_str());
  PrintRows("Right, per cent with 95 % intervals",
            engine::E2eRows(study, summary), flags.output);
  std::printf(
      "auto-routed %.1f %%, abstained %.1f %%\n"
      "all schemas: %.0f tokens, fits a context of %d for %.1f %% of the "
      "queries; overflows at %d tools of %.0f tokens\n",
      100 * summary.auto_share.value, 100 * summary.abstain_share,
      summary.list_tokens_mean, study.context_tokens,
      100 * summary.list_fits_share, study.overflow_tools,
      study.schema_tokens_mean);
  for (const engine::E2ePair& pair : summary.pairs) {
    std::printf(
        "routed %s less all schemas, both right, %d queries: %+.1f points "
        "[%+.1f, %+.1f], McNemar p %.3f\n",
        pair.routed.c_str(), pair.n, 100 * pair.difference, 100 * pair.ci95.low,
        100 * pair.ci95.high, pair.mcnemar_p);
  }
  return kExitOk;
}

}  // namespace

void AddEvalE2e(CLI::App* group, Action* action) {
  auto globals = std::make_shared<GlobalOptions>();
  auto flags = std::make_shared<EvalE2eFlags>();
  CLI::App* command = group->add_subcommand(
      "e2e",
      "How often the routed tool and its arguments are right, against every "
      "schema in the prompt");
  AddRegistryFlag(command, globals.get());
  AddQueryFlags(command, &flags->queries, &flags->filter);
  AddModeFlag(command, &flags->modes);
  CLI::Option* pool =
      command
          ->add_option("--pool", flags->pool,
                       "Tools that each query chooses from: random, "
                       "neighbour or server [the whole registry]")
          ->check(CLI::IsMember({"random", "neighbour", "server"}));
  command->add_option("--n", flags->pool_size, "Tools a pool")
      ->check(CLI::Range(1, 1'000'000))
      ->needs(pool);
  command
      ->add_option("--baseline", flags->baseline,
                   "Queries that every schema of the pool is also decoded for "
                   "as text, where that fits; its tokens are counted anyway")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command->add_flag("--words-only", flags->words_only,
                    "No encoder: BM25 decides");
  command
      ->add_option("--max-tokens", flags->max_tokens,
                   "Longest arguments that are sampled")
      ->check(CLI::Range(16, 1 << 16))
      ->capture_default_str();
  command
      ->add_option("--trials", flags->trials,
                   "Keep the calls here, and go on from what is there")
      ->type_name("FILE");
  AddRouteFlags(command, globals.get());
  command
      ->add_option("--cache", flags->cache,
                   "Keep embeddings here for the next run")
      ->type_name("FILE");
  AddModelFlags(command, globals.get());
  AddMarkdownFlag(command, &flags->output);
  AddJsonFlag(command, globals.get());
  command->callback([=] { *action = [=] { return Run(*globals, *flags); }; });
}

}  // namespace nexus::cli
