// `tools` and `tool_choice` of the Responses API.
//
// A namespace is a group of functions, as an agent has one for each of its MCP
// servers. The model sees them side by side, each by a name of its own; calls
// and what a conversation holds of them carry the two names that the client
// knows. Tools that OpenAI's own servers run (web_search, file_search, ...) and
// tools of free text aren't offered to the model: agents list them whether they
// are wanted or not.
#ifndef NEXUS_SERVE_RESPONSES_TOOLS_H_
#define NEXUS_SERVE_RESPONSES_TOOLS_H_

#include <string>
#include <string_view>

#include "nexus/base/json.h"
#include "nexus/serve/field_reader.h"
#include "nexus/serve/openai_chat.h"

namespace nexus::serve {

// "docs" and "search" -> "docs__search"; an empty namespace -> the name.
std::string NameInNamespace(std::string_view space, std::string_view name);

// Fills the request's tools, tool choice, namespaced and
// left_out_tools.
void ReadResponsesTools(const Json& body, FieldReader* read,
                        ChatRequest* request);

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_RESPONSES_TOOLS_H_
