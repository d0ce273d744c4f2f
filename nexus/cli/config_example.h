// A config file with every flag that there is, each with what it means, all of
// them commented out.
#ifndef NEXUS_CLI_CONFIG_EXAMPLE_H_
#define NEXUS_CLI_CONFIG_EXAMPLE_H_

#include <string>

#include "nexus/cli/command_doc.h"

namespace nexus::cli {

// `only` names one command, with its subcommands; empty: all. Flags that
// several commands take alike stand once, at the top.
std::string ConfigExample(const CommandDoc& program, const std::string& only);

// The right side of a config line, in TOML: the flag's default, else a value
// that it takes.
std::string ExampleValue(const FlagDoc& flag);

// Whether a config file may set it: it has a long name, and isn't the flag that
// names the file or prints something else instead of running.
bool IsConfigurable(const FlagDoc& flag);

}  // namespace nexus::cli

#endif  // NEXUS_CLI_CONFIG_EXAMPLE_H_
