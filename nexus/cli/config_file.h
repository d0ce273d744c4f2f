// ConfigFile: CLI11's configuration from one TOML or JSON file.
//
// Keys are long flag names ("model", "store"). At the top level they hold for
// every command that has the flag; a table named after a command holds its own,
// which win. Flags beat environment variables, those beat the file.
#ifndef NEXUS_CLI_CONFIG_FILE_H_
#define NEXUS_CLI_CONFIG_FILE_H_

#include <istream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace nexus::cli {

class ConfigFile : public CLI::ConfigBase {
 public:
  // `app` knows the commands and their flags; it must outlive this.
  explicit ConfigFile(const CLI::App* app) : app_(app) {}

  // Throws CLI::ConfigError with line and column. Not FileError: CLI11 swallows
  // that one for a file that was not named on the command line.
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;

 private:
  const CLI::App* app_;
};

// $XDG_CONFIG_HOME/nexus/config.toml or ~/.config/nexus/config.toml.
std::string DefaultConfigPath();

}  // namespace nexus::cli

#endif  // NEXUS_CLI_CONFIG_FILE_H_
