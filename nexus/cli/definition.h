// The commands that print what the command line says about itself.
#ifndef NEXUS_CLI_DEFINITION_H_
#define NEXUS_CLI_DEFINITION_H_

#include "nexus/cli/common.h"

namespace nexus::cli {

// config, and the hidden completion and man. They walk `app` when they run: all
// of it, whatever is added later.
void AddDefinitionCommands(CLI::App* app, Action* action);

}  // namespace nexus::cli

#endif  // NEXUS_CLI_DEFINITION_H_
