// ForEachLine: the lines of a text, numbered from 1 as editors do. A last line
// needs no newline; what is blank is the visitor's to judge.
#ifndef NEXUS_BASE_LINES_H_
#define NEXUS_BASE_LINES_H_

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "nexus/base/status.h"

namespace nexus {

// visit(line, number) -> Status; the first error ends the walk.
template <typename Visitor>
Status ForEachLine(std::string_view text, const Visitor& visit) {
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), end + 1));
    const Status status = visit(line, number);
    if (!status.ok()) return status;
  }
  return Status::Ok();
}

}  // namespace nexus

#endif  // NEXUS_BASE_LINES_H_
