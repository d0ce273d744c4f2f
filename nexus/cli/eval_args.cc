// nexus eval args: the arguments that a model writes for a tool that is given,
// from its signature, its spliced schema, or its schema as text.
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <set>

#include "nexus/base/file_system.h"
#include "nexus/cli/eval_commands.h"
#include "nexus/cli/exit_code.h"
#include "nexus/cli/interrupt.h"
#include "nexus/cli/terminal.h"
#include "nexus/engine/argument_study.h"
#include "nexus/engine/compile_tools.h"

namespace nexus::cli {
namespace {

struct EvalArgsFlags {
  std::string queries;
  eval::QueryFilter filter;
  std::vector<std::string> modes = {"all"};
  std::string trials;
  int max_tokens = 512;
  int failures = 0;
  bool compile = false;
  EvalOutput output;
};

// Blocks for the schemas that will be asked for, so that they are spliced.
Status CompileSchemas(const engine::Engine& engine,
                      const std::vector<schema::ToolSchema>& tools,
                      const std::vector<eval::ArgumentTask>& tasks) {
  std::set<int> numbers;
  for (const eval::ArgumentTask& task : tasks) numbers.insert(task.tool);
  std::vector<schema::ToolSchema> used;
  for (const int number : numbers) {
    used.push_back(tools[static_cast<size_t>(number)]);
  }
  ProgressLine line("compile");
  engine::CompileToolsOptions options;
  options.cancel = &Interrupted();
  options.progress = [&](const compile::CompileProgress& progress) {
    line.Update(
        static_cast<double>(progress.done) / std::max(progress.total, 1),
        FormatCount(progress.done) + " of " + FormatCount(progress.total) +
            " schemas");
  };
  const auto report = engine::CompileTools(engine, used, options);
  line.Done();
  if (!report.ok()) return report.status();
  for (const auto& failure : report->failures) {
    Note(failure.tool_name + ": " + failure.status.message());
  }
  return Status::Ok();
}

struct Study {
  std::string model;
  std::vector<schema::ToolSchema> tools;
  eval::ArgumentTasks tasks;
  std::vector<eval::ArgumentRun> runs;
};

Result<Study> RunStudy(const GlobalOptions& globals,
                       const EvalArgsFlags& flags) {
  Study study;
  NEXUS_ASSIGN_OR_RETURN(study.tools,
                         schema::ReadRegistryFile(globals.tools_file));
  NEXUS_ASSIGN_OR_RETURN(auto queries, eval::ReadQueryFile(flags.queries));
  // The limit is of queries that can be used.
  eval::QueryFilter filter = flags.filter;
  filter.limit = 0;
  NEXUS_ASSIGN_OR_RETURN(
      study.tasks,
      eval::ResolveArgumentTasks(
          study.tools, eval::FilterQueries(std::move(queries), filter)));
  eval::DrawTasks(flags.filter.limit, flags.filter.seed, &study.tasks.tasks);
  NoteLeftOut(study.tasks);

  NEXUS_ASSIGN_OR_RETURN(const auto engine, MakeEngine(globals));
  study.model = engine->model().info().name;
  NEXUS_ASSIGN_OR_RETURN(
      engine::ArgumentLog log,
      engine::OpenArgumentLog(FileSystem::Default(), flags.trials, *engine));
  engine::ArgumentStudyOptions options;
  options.forms = FormsOf(flags.modes);
  options.cancel = &Interrupted();
  if (flags.compile) {
    NEXUS_RETURN_IF_ERROR(
        CompileSchemas(*engine, study.tools, study.tasks.tasks));
  }
  NEXUS_ASSIGN_OR_RETURN(
      const auto runner,
      engine::ArgumentRunner::Create(engine.get(), &log, flags.max_tokens));
  const CancelOnInterrupt cancel(&runner->session().context());
  ProgressLine line("eval args");
  const auto start = std::chrono::steady_clock::now();
  options.progress = [&](const engine::ArgumentStudyProgress& progress) {
    line.Update(static_cast<double>(progress.done) / progress.total,
                ProgressNote(progress, "calls", start));
  };
  auto runs = engine::RunArgumentStudy(*runner, study.tools, study.tasks.tasks,
                                       options);
  line.Done();
  if (!runs.ok()) return runs.status();
  study.runs = *std::move(runs);
  return study;
}

Json StudyJson(const Study& study,
               const std::vector<eval::ArgumentSummary>& summaries,
               const std::vector<eval::ArgumentPair>& pairs,
               const std::vector<eval::ArgumentFailure>& failures) {
  Json json;
  if (summaries.size() == 1) {
    json = eval::ArgumentSummaryJson(summaries.front());
  } else {
    json = {{"n", summaries.front().n}};
    for (const eval::ArgumentSummary& summary : summaries) {
      json["modes"][std::string(eval::ArgumentFormName(summary.form))] =
          eval::ArgumentSummaryJson(summary);
    }
    for (const eval::ArgumentPair& pair : pairs) {
      json["pairs"].push_back(eval::ArgumentPairJson(pair));
    }
  }
  json["model"] = study.model;
  json["left_out"] = eval::LeftOutJson(study.tasks);
  for (const eval::ArgumentFailure& failure : failures) {
    json["failures"].push_back(eval::ArgumentFailureJson(failure));
  }
  return json;
}

int Run(const GlobalOptions& globals, const EvalArgsFlags& flags) {
  const auto study = RunStudy(globals, flags);
  if (!study.ok()) {
    NoteTrials(study.status(), flags.trials);
    return Fail(study.status());
  }
  const std::vector<eval::ArgumentTask>& tasks = study->tasks.tasks;
  std::vector<eval::ArgumentSummary> summaries;
  std::vector<eval::ArgumentPair> pairs;
  std::vector<eval::ArgumentFailure> failures;
  for (const eval::ArgumentRun& run : study->runs) {
    summaries.push_back(eval::SummarizeRun(study->tools, tasks, run));
    for (eval::ArgumentFailure& failure :
         eval::ListFailures(study->tools, tasks, run, flags.failures)) {
      failures.push_back(std::move(failure));
    }
  }
  // Against what comes behind it, the reference last: ir - schema-text.
  for (size_t i = 0; i < study->runs.size(); ++i) {
    for (size_t j = study->runs.size() - 1; j > i; --j) {
      pairs.push_back(eval::CompareRuns(study->tools, tasks, study->runs[j],
                                        study->runs[i]));
    }
  }
  if (globals.json) {
    PrintJson(StudyJson(*study, summaries, pairs, failures));
    return kExitOk;
  }
  const auto name = [](const std::filesystem::path& path) {
    return OneLine(path.filename().string());
  };
  std::printf("%s%s, %s, %s: %d queries, greedy, grammar, one repair round\n\n",
              flags.output.markdown ? "# nexus eval args\n\n" : "",
              OneLine(study->model).c_str(), name(globals.tools_file).c_str(),
              name(flags.queries).c_str(), summaries.front().n);
  PrintRows("Exact arguments, per cent with 95 % intervals",
            eval::ArgumentFormRows(summaries), flags.output);
  PrintRows("Pairs on the same queries", eval::ArgumentPairRows(pairs),
            flags.output);
  PrintRows("Exact by kind of argument and by part",
            eval::ArgumentGroupRows(summaries), flags.output);
  PrintFailures(failures, flags.output);
  return kExitOk;
}

}  // namespace

void AddEvalArgs(CLI::App* group, Action* action) {
  auto globals = std::make_shared<GlobalOptions>();
  auto flags = std::make_shared<EvalArgsFlags>();
  CLI::App* command = group->add_subcommand(
      "args",
      "How often the arguments are right when the tool is given: from its "
      "signature, its spliced schema, its schema as text");
  AddRegistryFlag(command, globals.get());
  AddQueryFlags(command, &flags->queries, &flags->filter);
  AddModeFlag(command, &flags->modes);
  command->add_flag("--compile", flags->compile,
                    "First compile the blocks that the store lacks, so that "
                    "schemas are spliced");
  command
      ->add_option("--max-tokens", flags->max_tokens,
                   "Longest arguments that are sampled")
      ->check(CLI::Range(16, 1 << 16))
      ->capture_default_str();
  command
      ->add_option("--trials", flags->trials,
                   "Keep the calls here, and go on from what is there")
      ->type_name("FILE");
  command
      ->add_option("--failures", flags->failures,
                   "Show this many wrong calls of each mode")
      ->check(CLI::Range(0, 100'000));
  AddModelFlags(command, globals.get());
  AddMarkdownFlag(command, &flags->output);
  AddJsonFlag(command, globals.get());
  command->callback([=] { *action = [=] { return Run(*globals, *flags); }; });
}

}  // namespace nexus::cli
