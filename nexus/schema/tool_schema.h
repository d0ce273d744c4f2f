// ToolSchema: one tool, whichever dialect it came in, and its three identities.
//
//   tool_id      (server, name): who to call
//   schema_hash  SHA-256 of the canonical text (keys sorted): which KV block
//   twin_key     normalised name and description: the same tool elsewhere, for
//                evaluation only
// Never mix them.
#ifndef NEXUS_SCHEMA_TOOL_SCHEMA_H_
#define NEXUS_SCHEMA_TOOL_SCHEMA_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/hash.h"
#include "nexus/base/json.h"
#include "nexus/base/result.h"

namespace nexus::schema {

// Bounds on one tool's parameters, so that every recursive consumer (hash,
// grammar, validator) stays within its stack and a hostile server can't fill
// the memory.
inline constexpr size_t kMaxSchemaBytes = 5'000'000;
inline constexpr int kMaxSchemaLevels = 63;

// MCP annotations are hints by the server, not promises.
struct ToolAnnotations {
  std::optional<bool> read_only;
  std::optional<bool> destructive;
};

struct ToolSchema {
  std::string server;  // empty: none
  std::string name;
  std::string description;
  Json parameters = Json::object();  // JSON Schema, author's property order
  ToolAnnotations annotations;
};

// MCP `Tool` {name, description, inputSchema}, OpenAI {type: "function",
// function: {...}} or the bare function {name, description, parameters}. Both
// dialects give the same ToolSchema where they mean the same (missing, null and
// empty-object parameters are all {"type": "object", "properties": {}}).
// `source` names the origin in errors. Nulls that Go servers write for empty
// slices and maps ("required": null) are taken as absent. kInvalidArgument: no
// name, wrong types, parameters that aren't an object, a schema of 5 MB or 64
// levels and more.
Result<ToolSchema> ParseTool(const Json& value, std::string_view server,
                             std::string_view source);

// A registry: JSON lines of tools, a JSON array of tools, or an MCP tools/list
// result
// ({"tools": [...]}, also inside a JSON-RPC answer's "result"). A byte order
// mark, CRLF and blank lines are tolerated. A line's "server" field is kept. An
// error names path and line; with `skipped` set, bad entries are reported there
// and the rest is returned; so is the second tool of one (server, name), which
// nobody could call. Without it such tools are all kept. An empty file has no
// tools.
Result<std::vector<ToolSchema>> ReadRegistryFile(
    const std::string& path, std::vector<std::string>* skipped = nullptr);

// "server/name", or "name" without a server.
std::string ToolId(const ToolSchema& tool);

// Canonical text: {"description", "name", "parameters"} with all keys sorted at
// every level and no spaces. Two tools with the same text are the same for the
// model.
std::string CanonicalText(const ToolSchema& tool);
Sha256Digest SchemaHash(const ToolSchema& tool);
std::string TwinKey(const ToolSchema& tool);

// What the model reads: {"type": "function", "function": {"name",
// "description", "parameters"}} on one line, separators ", " and ": " as
// Python's json.dumps writes them (chat templates' tojson, so what models were
// trained on), author's property order.
std::string ModelText(const ToolSchema& tool);

// For search: name, description, parameter names and descriptions, as plain
// text.
std::string SearchText(const ToolSchema& tool);

}  // namespace nexus::schema

#endif  // NEXUS_SCHEMA_TOOL_SCHEMA_H_
