// A chat request as the remote gets it: the client's own, with fewer tools.
#ifndef NEXUS_REMOTE_TOOL_REQUEST_H_
#define NEXUS_REMOTE_TOOL_REQUEST_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "nexus/base/json.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::remote {

// How a tool's schema goes out.
enum class SchemaForm {
  kFull,   // as the client wrote it
  kShort,  // the IR signature, and types, enums and names without their prose
};

struct ToolPick {
  // Places in the client's list, in its order. Empty: no tools go out.
  std::vector<size_t> tools;
  bool must_call = false;  // whatever the client's tool_choice says
};

// A tool of the request as it goes out. `entry`: the client's JSON of it.
Json OutgoingTool(const Json& entry, const schema::ToolSchema& tool,
                  SchemaForm form);

// `body` without the field `nexus`, with the model that the remote knows it by
// (empty: as it is) and the picked tools. `tools` are those of the body,
// parsed.
Json OutgoingRequest(const Json& body,
                     std::span<const schema::ToolSchema> tools,
                     const ToolPick& pick, SchemaForm form,
                     const std::string& model);

// The same for a request whose tools all go out as they are.
Json OutgoingRequest(const Json& body, const std::string& model);

// What the user wants now: the text of the last user message; empty: none.
std::string LastUserText(const Json& body);
bool EndsWithUser(const Json& body);
// Names of the tools that the conversation has called.
std::vector<std::string> CalledTools(const Json& body);

}  // namespace nexus::remote

#endif  // NEXUS_REMOTE_TOOL_REQUEST_H_
