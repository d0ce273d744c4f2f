// HTTP headers that repeat what a request of the revision without a handshake
// says in its body, for whoever stands between and reads no bodies. Clients
// write them, servers check them.
#ifndef NEXUS_MCP_REQUEST_HEADERS_H_
#define NEXUS_MCP_REQUEST_HEADERS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/json.h"

namespace nexus::mcp {

inline constexpr const char* kVersionHeader = "MCP-Protocol-Version";
inline constexpr const char* kMethodHeader = "Mcp-Method";
inline constexpr const char* kNameHeader = "Mcp-Name";

// The text as a header can carry it: as it is, or else "=?base64?...?=".
std::string EncodeHeaderText(std::string_view text);
// Whether the header stands for the text, in either form.
bool HeaderMeans(std::string_view header, std::string_view text);

// What Mcp-Name repeats; nothing: the request has no such header.
std::optional<std::string> NamedInHeader(const std::string& method,
                                         const Json& params);

struct ParamHeader {
  std::string name;  // "Mcp-Param-Region"
  // A string, an integer or a boolean; null: the argument isn't there, and
  // neither may the header be.
  Json value;
};
// One for each property of the tool's inputSchema that "x-mcp-header" marks. An
// argument of a type that has no header is left out: the schema refuses it.
std::vector<ParamHeader> ParamHeaders(const Json& input_schema,
                                      const Json& arguments);
// The header's value for one that isn't null.
std::string ParamHeaderText(const Json& value);
// Integers are compared as numbers: 42.0 is 42.
bool ParamHeaderMeans(std::string_view header, const Json& value);

}  // namespace nexus::mcp

#endif  // NEXUS_MCP_REQUEST_HEADERS_H_
