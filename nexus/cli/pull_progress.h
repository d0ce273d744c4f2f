// Bringing weights onto this machine, with a line that shows how far it is.
#ifndef NEXUS_CLI_PULL_PROGRESS_H_
#define NEXUS_CLI_PULL_PROGRESS_H_

#include <string>

#include "nexus/cli/common.h"

namespace nexus::cli {

// As pull::Pull; Ctrl-C ends it.
Result<std::string> PullWithProgress(const std::string& what);

// Pulls `model` (a known name, or empty: the default) unless it is here. The
// error says what to do.
Status BringModel(const std::string& model);

}  // namespace nexus::cli

#endif  // NEXUS_CLI_PULL_PROGRESS_H_
