// ForEachJsonLine: the values of a file of JSON lines. Blank lines are skipped.
#ifndef NEXUS_BASE_JSON_LINES_H_
#define NEXUS_BASE_JSON_LINES_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "nexus/base/json.h"
#include "nexus/base/lines.h"
#include "nexus/base/result.h"

namespace nexus {

// visit(value, "path:line", line number from 1) -> Status; the first error ends
// the walk. A line that isn't JSON is ParseJson's error, with its place.
template <typename Visitor>
Status ForEachJsonLine(std::string_view text, const std::string& path,
                       const Visitor& visit) {
  return ForEachLine(text, [&](std::string_view line, size_t number) -> Status {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) {
      return Status::Ok();
    }
    const std::string where = path + ":" + std::to_string(number);
    NEXUS_ASSIGN_OR_RETURN(const Json value, ParseJson(line, where));
    return visit(value, where, number);
  });
}

}  // namespace nexus

#endif  // NEXUS_BASE_JSON_LINES_H_
