// The program as a CLI::App: what main parses, and what everything made from
// the command line's definition walks (man pages, completion, tests).
#ifndef NEXUS_CLI_APP_H_
#define NEXUS_CLI_APP_H_

#include <memory>
#include <string>

#include "nexus/cli/commands.h"

namespace nexus::cli {

// Of the program itself, before or behind any command.
struct ProgramFlags {
  bool verbose = false;
  std::string log_level = "info";
  std::string log_format = "text";
};

// Parsing fills `flags` and sets `action`; both must outlive the app.
std::unique_ptr<CLI::App> BuildApp(Action* action, ProgramFlags* flags);

}  // namespace nexus::cli

#endif  // NEXUS_CLI_APP_H_
