// The MCP servers to attach: the `mcpServers` file that desktop clients and
// editors use, read into one list.
#ifndef NEXUS_MCP_CONFIG_H_
#define NEXUS_MCP_CONFIG_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/json.h"
#include "nexus/base/result.h"

namespace nexus::mcp {

// Either `command` (a child process that speaks over its stdin and stdout) or
// `url` (streamable HTTP) is set, never both.
struct McpServerConfig {
  std::string name;

  std::string command;
  std::vector<std::string> args;
  std::map<std::string, std::string> env;  // added to this process's own
  std::string cwd;                         // empty: this process's

  std::string url;
  std::map<std::string, std::string> headers;

  int connect_timeout_ms = 20000;  // start, handshake and the tool list
  int call_timeout_ms = 60000;
  bool disabled = false;
};

// Looks up an environment variable; tests pass their own.
using EnvLookup =
    std::function<std::optional<std::string>(const std::string& name)>;
std::optional<std::string> ProcessEnv(const std::string& name);

// {"mcpServers": {NAME: {...}}} or {"servers": {...}}, in the file's order,
// disabled ones included. "type" is "stdio", "http" (or "streamable-http",
// "streamableHttp") or "sse" (tried as streamable HTTP). ${VAR} and
// ${VAR:-default} are expanded in command, args, env, cwd, url and headers; an
// unset variable without a default is an error that names it. A relative "cwd"
// is relative to the file. Unknown keys are ignored: other clients have theirs.
Result<std::vector<McpServerConfig>> ReadMcpConfigFile(const std::string& path);

// The same of parsed JSON; `source` names it in errors.
Result<std::vector<McpServerConfig>> ParseMcpConfig(
    const Json& root, std::string_view source,
    const EnvLookup& env = ProcessEnv);

}  // namespace nexus::mcp

#endif  // NEXUS_MCP_CONFIG_H_
