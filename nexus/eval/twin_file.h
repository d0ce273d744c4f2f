// Twin files: which tools of published registries are one tool for scoring.
//
// Collections hold the same tool many times with a word changed. Whoever
// chooses the other one made no error, and a registry that still holds it
// isn't a near miss. JSON lines,
//
//   {"id": "server/name", "twin": "a label"}
//
// where equal labels are twins; other fields are ignored.
// tools/train/prepare.py writes one (tools.splits.jsonl).
#ifndef NEXUS_EVAL_TWIN_FILE_H_
#define NEXUS_EVAL_TWIN_FILE_H_

#include <string>
#include <unordered_map>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/route/tool_index.h"

namespace nexus::eval {

using TwinLabels = std::unordered_map<std::string, std::string>;  // by tool id

// Of an empty path: none. kNotFound, or kInvalidArgument with file:line. Of an
// id that is given twice the last label counts.
Result<TwinLabels> ReadTwinFile(const std::string& path);

// One number a tool: equal for what the registry itself knows as twins, for
// equal labels, and for what hangs together by both.
std::vector<int> TwinClasses(const route::ToolIndex& registry,
                             const TwinLabels& labels);

}  // namespace nexus::eval

#endif  // NEXUS_EVAL_TWIN_FILE_H_
