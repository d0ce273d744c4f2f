// Manual pages in man(7) macros, made from the command line's definition:
// nexus(1), and one for each command with its subcommands inside.
#ifndef NEXUS_CLI_MAN_PAGE_H_
#define NEXUS_CLI_MAN_PAGE_H_

#include <string>

#include "nexus/cli/command_doc.h"

namespace nexus::cli {

// `command` is the program itself or one of its commands. `version` stands in
// the footer: "nexus 0.1.0".
std::string ManPage(const CommandDoc& program, const CommandDoc& command,
                    const std::string& version);

// "nexus.1", "nexus-serve.1".
std::string ManPageFile(const CommandDoc& command);

}  // namespace nexus::cli

#endif  // NEXUS_CLI_MAN_PAGE_H_
