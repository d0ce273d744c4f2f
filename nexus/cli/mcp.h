// nexus mcp: an MCP server in front of other MCP servers.
#ifndef NEXUS_CLI_MCP_H_
#define NEXUS_CLI_MCP_H_

#include "CLI/CLI.hpp"

#include "nexus/cli/common.h"

namespace nexus::cli {

void AddMcpCommand(CLI::App* app, Action* action);

}  // namespace nexus::cli

#endif  // NEXUS_CLI_MCP_H_
