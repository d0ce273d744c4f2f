// Mode "rich" of the fake server: well-behaved, with annotated tools, prompts,
// resources, logging and a tool list that grows.
#ifndef NEXUS_TESTS_FAKE_MCP_RICH_MODE_H_
#define NEXUS_TESTS_FAKE_MCP_RICH_MODE_H_

#include <functional>

#include "nlohmann/json.hpp"

namespace fake_mcp {

using Json = nlohmann::ordered_json;

// Answers by `write`, one message a call.
void HandleRich(const Json& message,
                const std::function<void(const Json&)>& write);

}  // namespace fake_mcp

#endif  // NEXUS_TESTS_FAKE_MCP_RICH_MODE_H_
