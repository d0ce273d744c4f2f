// What the command line says about itself: `nexus config`, and for packagers
// the hidden `nexus completion` and `nexus man`.
#include "nexus/cli/definition.h"

#include <cstdio>

#include "nexus/base/file_system.h"
#include "nexus/cli/command_doc.h"
#include "nexus/cli/completion.h"
#include "nexus/cli/config_example.h"
#include "nexus/cli/exit_code.h"
#include "nexus/cli/man_page.h"
#include "nexus/pull/model_catalog.h"

namespace nexus::cli {
namespace {

// The same whoever asks: the path of somebody's own config file is left out.
CommandDoc Describe(const CLI::App& app) {
  CommandDoc program = DescribeApp(app);
  for (FlagDoc& flag : program.flags) {
    if (flag.Key() != "config") continue;
    flag.default_value = "$XDG_CONFIG_HOME/nexus/config.toml";
    flag.required = false;
  }
  return program;
}

const CommandDoc* FindCommand(const CommandDoc& program,
                              const std::string& name) {
  for (const CommandDoc& command : program.commands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

int FailUnknown(const CommandDoc& program, const std::string& name) {
  std::string known;
  for (const CommandDoc& command : program.commands) {
    known += (known.empty() ? "" : ", ") + command.name;
  }
  return Fail(InvalidArgumentError("no command is called '" + name +
                                   "'; there are " + known));
}

int Complete(const CLI::App& app, const std::string& shell) {
  CompletionInput input{.program = Describe(app), .models = {}};
  for (const pull::ModelSpec& spec : pull::KnownModels()) {
    input.models.push_back(spec.name);
  }
  std::string script;
  if (shell == "bash") script = BashCompletion(input);
  if (shell == "zsh") script = ZshCompletion(input);
  if (shell == "fish") script = FishCompletion(input);
  std::printf("%s", script.c_str());
  return kExitOk;
}

int Man(const CLI::App& app, const std::string& name, const std::string& dir) {
  const CommandDoc program = Describe(app);
  constexpr char kVersion[] = "nexus " NEXUS_VERSION;
  if (dir.empty()) {
    const CommandDoc* page =
        name.empty() ? &program : FindCommand(program, name);
    if (page == nullptr) return FailUnknown(program, name);
    std::printf("%s", ManPage(program, *page, kVersion).c_str());
    return kExitOk;
  }
  FileSystem& files = FileSystem::Default();
  const auto write = [&](const CommandDoc& command) {
    return WriteFileAtomically(files, dir + "/" + ManPageFile(command),
                               ManPage(program, command, kVersion));
  };
  Status status = files.CreateDirs(dir);
  if (status.ok()) status = write(program);
  for (const CommandDoc& command : program.commands) {
    if (status.ok()) status = write(command);
  }
  return status.ok() ? static_cast<int>(kExitOk) : Fail(status);
}

int Config(const CLI::App& app, const std::string& only) {
  const CommandDoc program = Describe(app);
  if (!only.empty() && FindCommand(program, only) == nullptr) {
    return FailUnknown(program, only);
  }
  std::printf("%s", ConfigExample(program, only).c_str());
  return kExitOk;
}

}  // namespace

void AddDefinitionCommands(CLI::App* app, Action* action) {
  CLI::App* config = app->add_subcommand(
      "config", "Print a config file with every flag, all commented out");
  auto only = std::make_shared<std::string>();
  config->add_option("command", *only, "Of this command only");
  config->callback([=] { *action = [=] { return Config(*app, *only); }; });

  // Group "": not in the help. Users get the files with the package.
  CLI::App* completion =
      app->add_subcommand("completion", "Print a shell's completion script");
  completion->group("");
  auto shell = std::make_shared<std::string>();
  completion->add_option("shell", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  completion->callback(
      [=] { *action = [=] { return Complete(*app, *shell); }; });

  CLI::App* man =
      app->add_subcommand("man", "Print the manual page of a command");
  man->group("");
  auto page = std::make_shared<std::string>();
  auto dir = std::make_shared<std::string>();
  man->add_option("command", *page, "[the program itself]");
  man->add_option("--dir", *dir, "Write all pages into this folder instead")
      ->type_name("DIR");
  man->callback([=] { *action = [=] { return Man(*app, *page, *dir); }; });
}

}  // namespace nexus::cli
