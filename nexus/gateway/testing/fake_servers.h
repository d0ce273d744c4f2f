// The fake MCP server as a server of a gateway, and waiting for what threads
// do.
#ifndef NEXUS_GATEWAY_TESTING_FAKE_SERVERS_H_
#define NEXUS_GATEWAY_TESTING_FAKE_SERVERS_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nexus/base/check.h"
#include "nexus/gateway/gateway.h"
#include "nexus/mcp/config.h"

namespace nexus::gateway {

// The test's target names the program.
inline mcp::McpServerConfig FakeServer(const std::string& name,
                                       const std::string& mode) {
  return {.name = name,
          .command = NEXUS_FAKE_MCP_SERVER,
          .args = {mode},
          .connect_timeout_ms = 20000};
}

// Whether it came true in the time that a busy machine may need.
inline bool Eventually(const std::function<bool()>& is_true) {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!is_true()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

inline GatewayOptions FakeOptions(std::vector<mcp::McpServerConfig> servers) {
  GatewayOptions options;
  options.servers = std::move(servers);
  options.upstream.backoff = {.first = std::chrono::milliseconds(20),
                              .longest = std::chrono::milliseconds(100)};
  options.settle_wait = std::chrono::seconds(20);
  return options;
}

// With all servers settled.
inline std::unique_ptr<Gateway> MakeGateway(GatewayOptions options) {
  auto gateway = Gateway::Create(std::move(options));
  NEXUS_CHECK(gateway.ok());
  NEXUS_CHECK(Eventually([&] { return (*gateway)->settled(); }));
  return std::move(gateway).value();
}

}  // namespace nexus::gateway

#endif  // NEXUS_GATEWAY_TESTING_FAKE_SERVERS_H_
