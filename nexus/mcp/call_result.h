// CallResult: what a tool answered, read from the result of tools/call.
#ifndef NEXUS_MCP_CALL_RESULT_H_
#define NEXUS_MCP_CALL_RESULT_H_

#include <string>

#include "nexus/base/json.h"
#include "nexus/base/result.h"

namespace nexus::mcp {

struct CallResult {
  bool is_error = false;  // the tool ran and says that it failed
  // The text parts, joined with a line end; other parts as a short note such as
  // "[image/png, 1234 bytes of base64]".
  std::string text;
  Json structured;  // structuredContent, null: none
  Json raw;         // the whole result
};

// kCorruption: not a result of tools/call. kUnimplemented: the tool wants to
// ask the user something first.
Result<CallResult> ReadCallResult(Json raw);

}  // namespace nexus::mcp

#endif  // NEXUS_MCP_CALL_RESULT_H_
