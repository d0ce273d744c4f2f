#include "nexus/cli/listen.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>

#include "nexus/base/file_system.h"
#include "nexus/net/origin_rules.h"

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

std::string TrimKey(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t begin = std::min(text.find_first_not_of(kBlank), text.size());
  return std::string(
      text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin));
}

// Never from the command line, which every user of the machine can read.
Result<std::string> ApiKey(const KeyFlags& flags) {
  std::string text;
  std::string source = flags.api_key_file;
  if (!source.empty()) {
    NEXUS_ASSIGN_OR_RETURN(text, FileSystem::Default().ReadFile(source));
  } else {
    source = "NEXUS_API_KEY";
    const char* value = std::getenv(source.c_str());
    text = value == nullptr ? "" : value;
    ::unsetenv(source.c_str());
    // The usual way to take a variable back.
    if (text.empty()) return text;
  }
  std::string key = TrimKey(text);
  if (key.empty()) return InvalidArgumentError(source + ": holds no key");
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
