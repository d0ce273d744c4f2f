#include "nexus/gateway/access_rules.h"

#include <fnmatch.h>

#include <algorithm>

namespace nexus::gateway {

bool MatchesGlob(const std::string& glob, std::string_view server,
                 std::string_view name) {
  const std::string id = std::string(server) + "/" + std::string(name);
  return ::fnmatch(glob.c_str(), id.c_str(), FNM_NOESCAPE) == 0;
}

std::string AccessRules::Refusal(std::string_view server,
                                 std::string_view name) const {
  const auto matches = [&](const std::string& glob) {
    return MatchesGlob(glob, server, name);
  };
  if (const auto denied = std::find_if(deny.begin(), deny.end(), matches);
      denied != deny.end()) {
    return "--deny '" + *denied + "' keeps it back";
  }
  if (!allow.empty() && std::none_of(allow.begin(), allow.end(), matches)) {
    return "no --allow names it";
  }
  return {};
}

std::string AccessRules::Refusal(const schema::ToolSchema& tool) const {
  if (std::string refusal = Refusal(tool.server, tool.name); !refusal.empty()) {
    return refusal;
  }
  if (read_only && tool.annotations.read_only != true) {
    return "--read-only keeps it back: its server doesn't say readOnlyHint: "
           "true";
  }
  return {};
}

}  // namespace nexus::gateway
