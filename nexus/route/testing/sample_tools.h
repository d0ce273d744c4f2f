// Tools for routing tests: a name, a text, perhaps a server; no parameters.
#ifndef NEXUS_ROUTE_TESTING_SAMPLE_TOOLS_H_
#define NEXUS_ROUTE_TESTING_SAMPLE_TOOLS_H_

#include <string>
#include <utility>

#include "nexus/schema/tool_schema.h"

namespace nexus::route {

inline schema::ToolSchema Tool(std::string name, std::string description,
                               std::string server = "") {
  schema::ToolSchema tool;
  tool.server = std::move(server);
  tool.name = std::move(name);
  tool.description = std::move(description);
  return tool;
}

}  // namespace nexus::route

#endif  // NEXUS_ROUTE_TESTING_SAMPLE_TOOLS_H_
