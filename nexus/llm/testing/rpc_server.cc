#include "nexus/llm/testing/rpc_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "ggml-backend.h"
#include "ggml-rpc.h"

#include "nexus/base/check.h"
#include "nexus/base/unique_fd.h"
#include "nexus/llm/rpc_devices.h"

namespace nexus::llm::testing {
namespace {

int FreePort() {
  int port = 0;
  BindToLoopback(&port);
  return port;
}

[[noreturn]] void Serve(const std::string& endpoint) {
  // Ends with the test, however that ends.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const UniqueFd quiet(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  ::dup2(quiet.get(), STDOUT_FILENO);
  ::dup2(quiet.get(), STDERR_FILENO);
  ggml_backend_dev_t cpu =
      ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  ggml_backend_rpc_start_server(endpoint.c_str(), nullptr, 1, 1, &cpu);
  ::_exit(1);
}

}  // namespace

UniqueFd BindToLoopback(int* port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* any = reinterpret_cast<sockaddr*>(&address);
  NEXUS_CHECK(::bind(fd.get(), any, size) == 0 &&
              ::getsockname(fd.get(), any, &size) == 0);
  *port = ntohs(address.sin_port);
  return fd;
}

RpcServer::RpcServer() : endpoint_("127.0.0.1:" + std::to_string(FreePort())) {
  process_ = ::fork();
  NEXUS_CHECK(process_ >= 0);
  if (process_ == 0) Serve(endpoint_);
  for (int i = 0; i < 600; ++i) {
    if (ProbeRpcServer(endpoint_, std::chrono::milliseconds(1000)).ok()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  NEXUS_CHECK(false);
}

RpcServer::~RpcServer() {
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

}  // namespace nexus::llm::testing
