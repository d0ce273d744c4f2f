// Generic tools that stand in for a block's neighbours when it is compiled for
// a place in a list: what other tools write into a tool's cells is, to a good
// part, the same whichever tools they are.
#ifndef NEXUS_COMPILE_LIST_TOOLS_H_
#define NEXUS_COMPILE_LIST_TOOLS_H_

#include <span>
#include <string_view>
#include <vector>

#include "nexus/schema/tool_schema.h"

namespace nexus::compile {

// JSON of MCP tools: short and long, flat and nested, of different trades.
std::span<const std::string_view> ListToolTexts();
const std::vector<schema::ToolSchema>& ListTools();

// Which of ListTools() stand before the block in each compile context, in the
// order of use: one to four of them, never the same ones.
std::span<const std::vector<int>> ListToolSets();

}  // namespace nexus::compile

#endif  // NEXUS_COMPILE_LIST_TOOLS_H_
