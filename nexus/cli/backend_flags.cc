#include "nexus/cli/backend_flags.h"

#include <cstdlib>
#include <utility>

#include "nexus/cli/listen.h"
#include "nexus/cli/terminal.h"
#include "nexus/net/origin_rules.h"

namespace nexus::cli {
namespace {

// Long enough for a probe of a remote that is there.
constexpr std::chrono::milliseconds kFirstProbes{2000};

}  // namespace

void AddBackendFlags(CLI::App* command, BackendFlags* flags) {
  constexpr char kGroup[] = "Remote backend";
  command
      ->add_option("--backend", flags->urls,
                   "OpenAI-compatible server that answers in place of a local "
                   "model; several, with commas between them, make a pool")
      ->envname("NEXUS_BACKEND")
      ->type_name("URL")
      ->group(kGroup);
  command
      ->add_option("--backend-model", flags->model,
                   "The backend's name for the model; requests must give it or "
                   "an --alias [any name goes through]")
      ->group(kGroup);
  command
      ->add_option("--backend-key-env", flags->key_variable,
                   "Environment variable that holds the backend's key")
      ->capture_default_str()
      ->group(kGroup);
  command
      ->add_option("--backend-schema", flags->schema,
                   "What goes out of a routed tool: full, its schema as it is; "
                   "short, its signature with types and enums")
      ->check(CLI::IsMember({"full", "short"}))
      ->capture_default_str()
      ->group(kGroup);
  command
      ->add_option("--backend-tools", flags->tools,
                   "Tools that go out when the router isn't sure")
      ->check(CLI::Range(1, 128))
      ->capture_default_str()
      ->group(kGroup);
  command
      ->add_option("--backend-attempts", flags->attempts,
                   "Tries of a request over all backends, the first included")
      ->check(CLI::Range(1, 100))
      ->capture_default_str()
      ->group(kGroup);
  command
      ->add_option("--backend-probe", flags->probe_s,
                   "Seconds between health checks; 0: none")
      ->check(CLI::Range(0, 3600))
      ->capture_default_str()
      ->group(kGroup);
  command
      ->add_option("--backend-silence", flags->silence_s,
                   "Longest silence within a stream, in seconds; 0: any")
      ->check(CLI::Range(0, 86400))
      ->capture_default_str()
      ->group(kGroup);
}

std::string TakeBackendKey(const BackendFlags& flags) {
  const char* const name = flags.key_variable.c_str();
  const char* value = std::getenv(name);
  std::string key = TrimKey(value == nullptr ? "" : value);
  ::unsetenv(name);
  return key;
}

Result<Backend> MakeBackend(const BackendFlags& flags, std::string key) {
  NEXUS_ASSIGN_OR_RETURN(const auto urls, remote::ParseBackendUrls(flags.urls));
  remote::BackendPoolOptions options;
  options.upstream.api_key = std::move(key);
  options.probe_interval = std::chrono::seconds(flags.probe_s);
  for (const remote::BackendUrl& url : urls) {
    if (!options.upstream.api_key.empty() && !url.is_https &&
        !net::IsLoopback(url.host)) {
      Note("the backend's key goes to " + url.name +
           " in the clear: use https, or a network that you trust");
    }
  }
  Backend backend;
  NEXUS_ASSIGN_OR_RETURN(backend.pool,
                         remote::BackendPool::Create(urls, options));
  remote::ChatClientOptions client;
  client.max_attempts = flags.attempts;
  client.silence = std::chrono::seconds(flags.silence_s);
  backend.client =
      std::make_unique<remote::ChatClient>(backend.pool.get(), client);
  // It may well be started later: nothing to give up for.
  backend.pool->AwaitFirstProbes(kFirstProbes);
  for (const remote::ReplicaCounts& replica :
       backend.pool->replicas().counts()) {
    if (!replica.is_well) Note(replica.name + " doesn't answer yet");
  }
  return backend;
}

}  // namespace nexus::cli
