// AccessRules: which tools, prompts and resources clients may see and use.
#ifndef NEXUS_GATEWAY_ACCESS_RULES_H_
#define NEXUS_GATEWAY_ACCESS_RULES_H_

#include <string>
#include <string_view>
#include <vector>

#include "nexus/schema/tool_schema.h"

namespace nexus::gateway {

// Globs as in a shell ("*", "?", "[a-z]"; "*" also matches "/") on
// "server/name", where name is a tool's, a prompt's, a resource's URI, or a
// resource template as it is written.
struct AccessRules {
  std::vector<std::string> allow;  // empty: everything
  std::vector<std::string> deny;   // stronger than allow
  // Only tools whose server says readOnlyHint: true. That is the server's word
  // and no proof.
  bool read_only = false;

  // Why the gateway keeps it from its clients, "" when it doesn't.
  std::string Refusal(std::string_view server, std::string_view name) const;
  std::string Refusal(const schema::ToolSchema& tool) const;
};

// Whether `glob` matches "server/name".
bool MatchesGlob(const std::string& glob, std::string_view server,
                 std::string_view name);

}  // namespace nexus::gateway

#endif  // NEXUS_GATEWAY_ACCESS_RULES_H_
