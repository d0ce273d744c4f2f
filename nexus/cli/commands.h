// One function a subcommand: declares its flags on `app` and sets `*action`
// when it was chosen. `globals` is filled by the time the action runs.
#ifndef NEXUS_CLI_COMMANDS_H_
#define NEXUS_CLI_COMMANDS_H_

#include "nexus/cli/common.h"

namespace nexus::cli {

void AddPullCommand(CLI::App* app, Action* action);
void AddToolsCommand(CLI::App* app, Action* action);
void AddCompileCommand(CLI::App* app, Action* action);
void AddInspectCommand(CLI::App* app, Action* action);
void AddRouteCommand(CLI::App* app, Action* action);
void AddAskCommand(CLI::App* app, Action* action);
void AddServeCommand(CLI::App* app, Action* action);
void AddBenchCommand(CLI::App* app, Action* action);
void AddEvalCommand(CLI::App* app, Action* action);
void AddCalibrateCommand(CLI::App* app, Action* action);
void AddCalibrateRouterCommand(CLI::App* app, Action* action);
void AddDoctorCommand(CLI::App* app, Action* action);
// Of bench.

// Subcommands of bench that have a file of their own.

// --mcp, --tools: where tools come from.
void AddToolFlags(CLI::App* command, GlobalOptions* globals);
// --model, --store, --ctx, --threads, --flash-attention, --kv-type.
void AddModelFlags(CLI::App* command, GlobalOptions* globals);
// --encoder, --tau.
void AddFirstLookFlags(CLI::App* command, GlobalOptions* globals);
// And --reranker.
void AddRouteFlags(CLI::App* command, GlobalOptions* globals);
void AddJsonFlag(CLI::App* command, GlobalOptions* globals);

}  // namespace nexus::cli

#endif  // NEXUS_CLI_COMMANDS_H_
