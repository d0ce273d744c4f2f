// The subcommands of `nexus eval` that have files of their own, and the flags
// that they share.
#ifndef NEXUS_CLI_EVAL_COMMANDS_H_
#define NEXUS_CLI_EVAL_COMMANDS_H_

#include <chrono>
#include <string>
#include <vector>

#include "nexus/cli/commands.h"
#include "nexus/engine/argument_study.h"
#include "nexus/eval/argument_report.h"
#include "nexus/eval/query_file.h"

namespace nexus::cli {

void AddEvalArgs(CLI::App* group, Action* action);
void AddEvalE2e(CLI::App* group, Action* action);

// --registry.
void AddRegistryFlag(CLI::App* command, GlobalOptions* globals);
// --queries, --split, --set, --part, --limit, --draw.
void AddQueryFlags(CLI::App* command, std::string* queries,
                   eval::QueryFilter* filter);

// --twins, for ReadTwinFile.
void AddTwinsFlag(CLI::App* command, std::string* twins);

// --mode, and its forms in the order of kArgumentForms; "all" is all of them.
void AddModeFlag(CLI::App* command, std::vector<std::string>* modes);
std::vector<eval::ArgumentForm> FormsOf(const std::vector<std::string>& modes);

// "34 of 120 calls, 12 min left".
std::string ProgressNote(const engine::ArgumentStudyProgress& progress,
                         const char* what,
                         std::chrono::steady_clock::time_point start);
// Where to go on from, when the run was interrupted.
void NoteTrials(const Status& status, const std::string& trials);

// How the results of `eval args` and `eval e2e` are shown.
struct EvalOutput {
  bool json = false;
  bool markdown = false;
};
void AddMarkdownFlag(CLI::App* command, EvalOutput* output);
// A title and a table, for the terminal or as Markdown; nothing without rows.
void PrintRows(const std::string& title, const eval::TableRows& rows,
               const EvalOutput& output);
void PrintFailures(const std::vector<eval::ArgumentFailure>& failures,
                   const EvalOutput& output);
// Notes on standard error: the first labels that the registry lacks, and how
// many queries couldn't be used.
void NoteLeftOut(const eval::ArgumentTasks& tasks);

}  // namespace nexus::cli

#endif  // NEXUS_CLI_EVAL_COMMANDS_H_
