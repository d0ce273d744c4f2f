// Exit codes, the same for every command; docs/cli.md lists them.
#ifndef NEXUS_CLI_EXIT_CODE_H_
#define NEXUS_CLI_EXIT_CODE_H_

#include "nexus/base/status.h"

namespace nexus::cli {

enum ExitCode : int {
  kExitOk = 0,
  kExitInternal = 1,
  kExitUsage = 2,        // wrong flags or wrong input
  kExitNotFound = 3,     // a file, model, tool or block isn't there
  kExitDamaged = 4,      // corrupt, or made for something else
  kExitSystem = 5,       // disk, memory, permissions, context too small
  kExitUnavailable = 6,  // a server didn't answer
  kExitAbstained = 7,    // no tool fits the question
  kExitToolError = 8,    // the tool reported a failure, or the call is invalid
  kExitInterrupted = 130,
};

int ExitCodeFor(const Status& status);

}  // namespace nexus::cli

#endif  // NEXUS_CLI_EXIT_CODE_H_
