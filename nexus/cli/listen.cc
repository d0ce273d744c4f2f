#include "nexus/cli/listen.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>

#include "nexus/base/file_system.h"
#include "nexus/net/http_server.h"

namespace nexus::cli {

void AddKeyFlags(CLI::App* command, KeyFlags* flags) {
  command
      ->add_option("--api-key-file", flags->api_key_file,
                   "File with the key that clients must send as a bearer token "
                   "[the environment's NEXUS_API_KEY, else none]")
      ->type_name("FILE");
  command->add_flag("--allow-public", flags->allow_public,
                    "Listen beyond loopback without a key");
}

// Never from the command line, which every user of the machine can read.
Result<std::string> ApiKey(const KeyFlags& flags) {
  std::string key;
  if (!flags.api_key_file.empty()) {
    NEXUS_ASSIGN_OR_RETURN(key,
                           FileSystem::Default().ReadFile(flags.api_key_file));
    key.erase(0, key.find_first_not_of(" \t\r\n"));
    key.erase(key.find_last_not_of(" \t\r\n") + 1);
    if (key.empty()) {
      return InvalidArgumentError(flags.api_key_file + ": holds no key");
    }
  } else if (const char* from_environment = std::getenv("NEXUS_API_KEY")) {
    key = from_environment;
    ::unsetenv("NEXUS_API_KEY");
  }
  return key;
}

Status CheckPublic(const std::string& flag, const std::string& host,
                   const std::string& key, const KeyFlags& flags) {
  if (net::IsLoopback(host) || !key.empty() || flags.allow_public) return {};
  return InvalidArgumentError(
      flag + " " + host +
      ": anybody who reaches this address could use the server; set "
      "NEXUS_API_KEY or --api-key-file, or say --allow-public");
}

void RaiseFileLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  constexpr rlim_t kEnough = 8192;
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= kEnough) return;
  limit.rlim_cur = limit.rlim_max == RLIM_INFINITY
                       ? kEnough
                       : std::min(kEnough, limit.rlim_max);
  // Without it the server takes fewer connections.
  [[maybe_unused]] const int ignored = ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace nexus::cli
