// Fuzz target: what an MCP peer sends, and what a user wrote into mcpServers. A
// message that is read must be written so that it is read again as the same.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "nexus/base/check.h"
#include "nexus/mcp/call_result.h"
#include "nexus/mcp/config.h"
#include "nexus/mcp/json_rpc.h"

namespace nexus::mcp {
namespace {

void TryMessages(std::string_view text) {
  const auto messages = ParseRpc(text, "peer");
  if (!messages.ok()) return;
  for (const RpcMessage& message : *messages) {
    const auto write = [](const auto& each) { return SerializeRpc(each); };
    const std::string written = std::visit(write, message);
    NEXUS_CHECK(written.find('\n') == std::string::npos);
    const auto again = ParseRpc(written, "peer");
    NEXUS_CHECK(again.ok() && again->size() == 1);
    NEXUS_CHECK(std::visit(write, again->front()) == written);
  }
}

}  // namespace
}  // namespace nexus::mcp

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  nexus::mcp::TryMessages(text);
  const auto json = nexus::ParseJson(text, "input");
  if (!json.ok()) return 0;
  (void)nexus::mcp::ParseMcpConfig(
      *json, "input", [](const std::string&) -> std::optional<std::string> {
        return std::nullopt;
      });
  (void)nexus::mcp::ReadCallResult(*json);
  return 0;
}
