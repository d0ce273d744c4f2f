// --backend and what belongs to it: a remote in place of a local model.
#ifndef NEXUS_CLI_BACKEND_FLAGS_H_
#define NEXUS_CLI_BACKEND_FLAGS_H_

#include <memory>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

#include "nexus/base/result.h"
#include "nexus/remote/backend_pool.h"
#include "nexus/remote/chat_client.h"
#include "nexus/remote/tool_request.h"

namespace nexus::cli {

struct BackendFlags {
  std::vector<std::string> urls;
  std::string model;
  std::string key_variable = "NEXUS_BACKEND_KEY";
  std::string schema = "full";
  int tools = 5;
  int attempts = 4;
  int probe_s = 10;
  int silence_s = 120;

  bool is_set() const { return !urls.empty(); }
  remote::SchemaForm form() const {
    return schema == "short" ? remote::SchemaForm::kShort
                             : remote::SchemaForm::kFull;
  }
};
void AddBackendFlags(CLI::App* command, BackendFlags* flags);

struct Backend {
  std::unique_ptr<remote::BackendPool> pool;
  std::unique_ptr<remote::ChatClient> client;
};
// The key, out of the environment: before MCP servers start, which are children
// of this process and need not know it. Empty: there is none.
std::string TakeBackendKey(const BackendFlags& flags);
// Notes on standard error what is worth knowing: replicas that don't answer
// yet, a key that goes out in the clear.
Result<Backend> MakeBackend(const BackendFlags& flags, std::string key);

}  // namespace nexus::cli

#endif  // NEXUS_CLI_BACKEND_FLAGS_H_
