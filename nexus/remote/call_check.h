// Calls that come back from a remote, against the full schemas of the client's
// tools; and the request that asks the remote to do better.
#ifndef NEXUS_REMOTE_CALL_CHECK_H_
#define NEXUS_REMOTE_CALL_CHECK_H_

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nexus/base/json.h"
#include "nexus/base/status.h"
#include "nexus/remote/answer_parts.h"
#include "nexus/schema/argument_validator.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::remote {

// Used by one thread.
class CallChecker {
 public:
  // `tools` must outlive it.
  explicit CallChecker(std::span<const schema::ToolSchema> tools)
      : tools_(tools) {}

  // kInvalidArgument says what is wrong, in words that are shown to the remote:
  // no such tool, no JSON object, violations of the schema. A schema that can't
  // be checked against lets everything through.
  Status Check(const RemoteCall& call);

 private:
  std::span<const schema::ToolSchema> tools_;
  std::map<std::string, std::unique_ptr<schema::ArgumentValidator>> validators_;
};

struct WrongCall {
  RemoteCall call;
  std::string problem;
};

// `body` (as it went out) with the wrong calls and what is wrong with them at
// the end, not as a stream, and with `tools` in place of its own. A call must
// follow.
Json RepairRequest(const Json& body, std::span<const WrongCall> wrong,
                   Json tools);

// For a remote that answers a forced call in words: `body` (as it went out)
// without tools, asking for the arguments alone, in JSON by the tool's schema.
Json ArgumentsRequest(const Json& body, const schema::ToolSchema& tool);

}  // namespace nexus::remote

#endif  // NEXUS_REMOTE_CALL_CHECK_H_
