// What commands that listen for clients have in common: address, key, and the
// rule that nobody is served to the world by accident.
#ifndef NEXUS_CLI_LISTEN_H_
#define NEXUS_CLI_LISTEN_H_

#include <string>
#include <string_view>

#include "CLI/CLI.hpp"

#include "nexus/base/result.h"

namespace nexus::cli {

struct KeyFlags {
  std::string api_key_file;
  bool allow_public = false;
};

// --api-key-file, --allow-public.
void AddKeyFlags(CLI::App* command, KeyFlags* flags);

// Without the blanks and line ends that editors and `echo` put around a key.
std::string TrimKey(std::string_view text);

// The key that clients must send, empty: none. From the file, else from the
// environment's NEXUS_API_KEY, which is then removed: MCP servers are children
// of this process and need not know it. kInvalidArgument: there are only
// blanks, which mustn't pass for no key.
Result<std::string> ApiKey(const KeyFlags& flags);

// kInvalidArgument for an address beyond loopback without a key, unless
// --allow-public was said. `flag` names the one that gave the address.
Status CheckPublic(const std::string& flag, const std::string& host,
                   const std::string& key, const KeyFlags& flags);

// Idle clients keep their connections, a descriptor each; the usual soft limit
// of 1,024 is a matter of select(), which nothing here uses.
void RaiseFileLimit();

}  // namespace nexus::cli

#endif  // NEXUS_CLI_LISTEN_H_
