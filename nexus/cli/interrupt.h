// Ctrl-C and SIGTERM as a flag that long work looks at.
#ifndef NEXUS_CLI_INTERRUPT_H_
#define NEXUS_CLI_INTERRUPT_H_

#include <atomic>

namespace nexus::cli {

// Installs the handlers; the second signal ends the process at once.
void InstallInterruptHandler();
const std::atomic<bool>& Interrupted();

}  // namespace nexus::cli

#endif  // NEXUS_CLI_INTERRUPT_H_
