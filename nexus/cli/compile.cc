// nexus compile: schemas -> KV blocks in the store.
#include <cstdio>

#include "nexus/cli/commands.h"
#include "nexus/cli/exit_code.h"
#include "nexus/cli/interrupt.h"
#include "nexus/cli/terminal.h"
#include "nexus/engine/compile_tools.h"

namespace nexus::cli {
namespace {

struct CompileFlags {
  int contexts = engine::kDefaultCompileContexts;
  bool recompile = false;
  std::string storage = "f16";
  std::vector<std::string> only;
};

std::vector<schema::ToolSchema> Selected(
    const std::vector<schema::ToolSchema>& tools,
    const std::vector<std::string>& only) {
  if (only.empty()) return tools;
  std::vector<schema::ToolSchema> selected;
  for (const schema::ToolSchema& tool : tools) {
    for (const std::string& name : only) {
      if (schema::ToolId(tool) == name || tool.name == name) {
        selected.push_back(tool);
        break;
      }
    }
  }
  return selected;
}

int Run(const GlobalOptions& globals, const CompileFlags& flags) {
  const auto storage = kv::ParseBlockStorage(flags.storage);
  if (!storage.has_value()) {
    return Fail(InvalidArgumentError("--storage: '" + flags.storage + "'"));
  }
  auto source = LoadTools(globals);
  if (!source.ok()) return Fail(source.status());
  const auto tools = Selected(source->tools, flags.only);
  if (tools.empty()) {
    return Fail(
        NotFoundError("--only: no tool of that name; `nexus tools` "
                      "lists them"));
  }
  auto engine = MakeEngine(globals);
  if (!engine.ok()) return Fail(engine.status());
  ProgressLine line("compile");
  auto report = engine::CompileTools(
      **engine, tools,
      {.contexts = flags.contexts,
       .recompile = flags.recompile,
       .storage = *storage,
       .progress =
           [&](const compile::CompileProgress& progress) {
             std::string note = FormatCount(progress.done) + " of " +
                                FormatCount(progress.total) + " tools";
             if (progress.eta_s >= 0) {
               note += ", " + FormatMs(progress.eta_s * 1000) + " to go";
             }
             line.Update(static_cast<double>(progress.tokens_done) /
                             static_cast<double>(
                                 std::max<int64_t>(1, progress.tokens_total)),
                         note + "  " + progress.current);
           },
       .cancel = &Interrupted()});
  line.Done();
  if (!report.ok()) {
    if (report.status().code() == StatusCode::kCancelled) {
      Note(
          "interrupted: finished tools are stored; run the same command to go "
          "on");
      return kExitInterrupted;
    }
    return Fail(report.status());
  }
  for (const compile::CompileFailure& failure : report->failures) {
    Note(failure.tool_name + ": " + failure.status.message());
  }
  if (report->stored_otherwise > 0) {
    Note(FormatCount(report->stored_otherwise) +
         " of those there are stored in another way than " + flags.storage +
         "; --recompile makes them anew");
  }
  const kv::BlockStore& store = *(*engine)->store();
  if (globals.json) {
    Json failures = Json::array();
    for (const compile::CompileFailure& failure : report->failures) {
      failures.push_back(
          {{"tool", failure.tool_name}, {"error", failure.status.ToString()}});
    }
    PrintJson({{"compiled", report->compiled},
               {"already_present", report->already_present},
               {"failures", failures},
               {"tokens_decoded", report->tokens_decoded},
               {"bytes_written", report->bytes_written},
               {"elapsed_s", report->elapsed_s},
               {"contexts", flags.contexts},
               {"storage", flags.storage},
               {"stored_otherwise", report->stored_otherwise},
               {"store", store.dir()}});
  } else {
    std::printf(
        "%d compiled, %d there already, %zu failed: %s in %s\nstore: "
        "%s\n",
        report->compiled, report->already_present, report->failures.size(),
        FormatBytes(report->bytes_written).c_str(),
        FormatMs(report->elapsed_s * 1000).c_str(), store.dir().c_str());
  }
  return report->failures.empty() ? kExitOk : kExitSystem;
}

}  // namespace

void AddCompileCommand(CLI::App* app, Action* action) {
  auto globals = std::make_shared<GlobalOptions>();
  CLI::App* command = app->add_subcommand(
      "compile",
      "Compile tool schemas into KV blocks, once per schema and "
      "model");
  auto flags = std::make_shared<CompileFlags>();
  AddToolFlags(command, globals.get());
  AddModelFlags(command, globals.get());
  command
      ->add_option("--contexts", flags->contexts,
                   "Compile contexts to average over: more cost more time and "
                   "drift less")
      ->check(CLI::Range(1, static_cast<int>(compile::CompileTexts().size())))
      ->capture_default_str();
  command->add_option("--only", flags->only,
                      "Only this tool; may be given several times");
  command->add_flag("--recompile", flags->recompile,
                    "Compile even what the store has");
  command
      ->add_option("--storage", flags->storage,
                   "Rows in the file: f16, q8 (about half), q8-k4 (about two "
                   "fifths, learns nothing more)")
      ->check(CLI::IsMember({"f16", "q8", "q8-k4"}))
      ->capture_default_str();
  AddJsonFlag(command, globals.get());
  command->footer(
      "Tools that are in the store already cost nothing. Ctrl-C "
      "keeps what is finished.");
  command->callback([=] { *action = [=] { return Run(*globals, *flags); }; });
}

}  // namespace nexus::cli
