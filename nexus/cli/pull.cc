// nexus pull: a model's weights onto this machine.
#include "nexus/pull/pull.h"

#include <cstdio>

#include "nexus/cli/commands.h"
#include "nexus/cli/exit_code.h"
#include "nexus/cli/interrupt.h"
#include "nexus/cli/log.h"
#include "nexus/cli/pull_progress.h"
#include "nexus/cli/terminal.h"

namespace nexus::cli {
namespace {

std::string_view PhaseName(pull::PullProgress::Phase phase) {
  switch (phase) {
    case pull::PullProgress::Phase::kWaiting:
      return "waiting for another pull";
    case pull::PullProgress::Phase::kDownloading:
      return "downloading";
    case pull::PullProgress::Phase::kVerifying:
      return "verifying";
  }
  return "";
}

int List(const GlobalOptions& globals) {
  Json models = Json::array();
  Table table({"name", "size", "here", "licence", "notes"});
  for (const pull::ModelSpec& spec : pull::KnownModels()) {
    const bool here = pull::ResolveModel(spec.name).ok();
    table.AddRow({spec.name, FormatBytes(spec.bytes), here ? "yes" : "no",
                  spec.licence, spec.notes});
    models.push_back({{"name", spec.name},
                      {"file", spec.file},
                      {"bytes", spec.bytes},
                      {"sha256", spec.sha256},
                      {"present", here},
                      {"licence", spec.licence}});
  }
  if (globals.json) {
    PrintJson({{"models", models}});
  } else {
    std::printf("%s", table.Render().c_str());
  }
  return kExitOk;
}

}  // namespace

Result<std::string> PullWithProgress(const std::string& what) {
  ProgressLine line("pull " +
                    (what.empty() ? pull::DefaultModel().name : what));
  auto path = pull::Pull(
      what, {.progress =
                 [&](const pull::PullProgress& progress) {
                   const double share =
                       progress.bytes_total == 0
                           ? 0
                           : static_cast<double>(progress.bytes_done) /
                                 static_cast<double>(progress.bytes_total);
                   std::string note(PhaseName(progress.phase));
                   if (progress.bytes_total > 0) {
                     note += " " + FormatBytes(progress.bytes_done) + " of " +
                             FormatBytes(progress.bytes_total);
                   }
                   line.Update(share, note);
                 },
             .cancel = &Interrupted()});
  line.Done();
  return path;
}

Status BringModel(const std::string& model) {
  const Status here = pull::ResolveModel(model).status();
  if (here.code() != StatusCode::kNotFound || !pull::FindModel(model).ok()) {
    return here;
  }
  Log(LogLevel::kInfo, here.message() + "; pulling it");
  const Status pulled = PullWithProgress(model).status();
  if (pulled.ok() || pulled.code() == StatusCode::kCancelled) return pulled;
  return Status(pulled.code(),
                pulled.message() + "; when that is solved, `nexus pull" +
                    (model.empty() ? "" : " " + model) +
                    "` brings the weights, or name a GGUF file with --model");
}

namespace {

int Run(const GlobalOptions& globals, const std::string& what) {
  const auto path = PullWithProgress(what);
  if (!path.ok()) return Fail(path.status());
  if (globals.json) {
    PrintJson({{"path", *path}});
  } else {
    std::printf("%s\n", path->c_str());
  }
  return kExitOk;
}

}  // namespace

void AddPullCommand(CLI::App* app, Action* action) {
  auto globals = std::make_shared<GlobalOptions>();
  CLI::App* command = app->add_subcommand(
      "pull", "Bring a model's weights onto this machine and verify them");
  auto what = std::make_shared<std::string>();
  auto list = std::make_shared<bool>(false);
  command->add_option("model", *what,
                      "A known name (" + pull::KnownModelNames() +
                          "), an https URL of a GGUF file, or a path");
  command->add_flag("--list", *list, "Show the known models");
  AddJsonFlag(command, globals.get());
  command->footer("An interrupted pull resumes where it stopped.");
  command->callback([=] {
    *action = [=] { return *list ? List(*globals) : Run(*globals, *what); };
  });
}

}  // namespace nexus::cli
