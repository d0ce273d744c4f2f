// RpcServer: llama.cpp's RPC server with this machine's CPU as its device, in a
// process of its own on a free port of 127.0.0.1.
#ifndef NEXUS_LLM_TESTING_RPC_SERVER_H_
#define NEXUS_LLM_TESTING_RPC_SERVER_H_

#include <sys/types.h>

#include <string>

#include "nexus/base/unique_fd.h"

namespace nexus::llm::testing {

// A TCP socket on a free port of 127.0.0.1, not yet listening.
UniqueFd BindToLoopback(int* port);

class RpcServer {
 public:
  // Forks: before the test has threads, so in SetUpTestSuite or main. Returns
  // when the server answers.
  RpcServer();
  ~RpcServer();  // kills it
  RpcServer(const RpcServer&) = delete;
  RpcServer& operator=(const RpcServer&) = delete;

  const std::string& endpoint() const { return endpoint_; }

 private:
  std::string endpoint_;
  pid_t process_ = -1;
};

}  // namespace nexus::llm::testing

#endif  // NEXUS_LLM_TESTING_RPC_SERVER_H_
