// The subcommands of `nexus bench` that have files of their own.
#ifndef NEXUS_CLI_BENCH_COMMANDS_H_
#define NEXUS_CLI_BENCH_COMMANDS_H_

#include "nexus/cli/commands.h"

namespace nexus::cli {

void AddBenchCompose(CLI::App* bench, Action* action);
void AddBenchDeterminism(CLI::App* bench, Action* action);
void AddBenchFidelity(CLI::App* bench, Action* action);
void AddBenchLearn(CLI::App* bench, Action* action);
void AddBenchLists(CLI::App* bench, Action* action);
void AddBenchNextTurn(CLI::App* bench, Action* action);
void AddBenchScan(CLI::App* bench, Action* action);

}  // namespace nexus::cli

#endif  // NEXUS_CLI_BENCH_COMMANDS_H_
