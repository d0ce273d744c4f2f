// CommandDoc: the command line's own definition as plain data. Man pages,
// completion and the example config are made from it and from nothing else, so
// they can't say what the program doesn't do.
#ifndef NEXUS_CLI_COMMAND_DOC_H_
#define NEXUS_CLI_COMMAND_DOC_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace nexus::cli {

struct FlagDoc {
  // With dashes, the long ones first; of a positional, its name alone.
  std::vector<std::string> names;
  // What stands behind it, "FILE"; empty: a switch.
  std::string value;
  std::vector<std::string> choices;  // the only values there are
  std::string range;                 // "0 - 65535"; empty: none
  std::string default_value;
  std::string environment;  // variable
  std::string description;
  bool repeats = false;
  bool required = false;

  // The key in the config file: the long name without dashes.
  std::string Key() const;
};

struct CommandDoc {
  std::string name;
  std::vector<std::string> parents;  // from the program down
  std::string description;
  std::string footer;
  std::vector<FlagDoc> flags;  // --help left out
  std::vector<FlagDoc> positionals;
  std::vector<CommandDoc> commands;

  // "nexus bench ttft" without the program's own name.
  std::string Path() const;
};

// Hidden commands and flags (of group "") are left out.
CommandDoc DescribeApp(const CLI::App& app);

}  // namespace nexus::cli

#endif  // NEXUS_CLI_COMMAND_DOC_H_
