// Completion scripts for shells, made from the command line's definition. They
// hold all that they need: the program isn't run when somebody presses Tab.
#ifndef NEXUS_CLI_COMPLETION_H_
#define NEXUS_CLI_COMPLETION_H_

#include <string>
#include <vector>

#include "nexus/cli/command_doc.h"

namespace nexus::cli {

struct CompletionInput {
  CommandDoc program;
  // What a value called MODEL may be, besides a file.
  std::vector<std::string> models;
};

std::string BashCompletion(const CompletionInput& input);
std::string ZshCompletion(const CompletionInput& input);
std::string FishCompletion(const CompletionInput& input);

}  // namespace nexus::cli

#endif  // NEXUS_CLI_COMPLETION_H_
