// ConfigFile: CLI11's configuration from one TOML or JSON file.
//
// Keys are long flag names ("model", "store"); a table named after a subcommand
// holds its flags. Flags beat environment variables, those beat the file.
#ifndef NEXUS_CLI_CONFIG_FILE_H_
#define NEXUS_CLI_CONFIG_FILE_H_

#include <istream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace nexus::cli {

class ConfigFile : public CLI::ConfigBase {
 public:
  // Throws CLI::FileError with line and column, as CLI11 expects.
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;
};

// $XDG_CONFIG_HOME/nexus/config.toml or ~/.config/nexus/config.toml.
std::string DefaultConfigPath();

}  // namespace nexus::cli

#endif  // NEXUS_CLI_CONFIG_FILE_H_
