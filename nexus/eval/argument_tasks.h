// ArgumentTasks: labelled queries whose arguments can be judged: exactly one
// call, of a tool that the registry has, with a schema that knows the labelled
// arguments. What can't be used is counted by reason, never silently dropped.
#ifndef NEXUS_EVAL_ARGUMENT_TASKS_H_
#define NEXUS_EVAL_ARGUMENT_TASKS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/eval/arg_match.h"
#include "nexus/eval/query_file.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::eval {

struct ArgumentTask {
  LabelledQuery query;  // with its one call
  int tool = 0;         // of the registry: the schema that was labelled
  ArgClasses classes;

  const Json& accepted() const { return query.calls.front().arguments; }
};

struct ArgumentTasks {
  std::vector<ArgumentTask> tasks;
  int without_calls = 0;
  int several_calls = 0;
  int unknown_tools = 0;
  // No tool of the label's name has all of the labelled arguments, or the
  // schema that it names isn't there.
  int foreign_arguments = 0;
  int nothing_accepted = 0;        // an argument's list is empty
  std::vector<std::string> notes;  // one a label that names what isn't there
};

// Where several tools share a name and the label doesn't say which is meant, it
// is the first that has all of the labelled arguments. kInvalidArgument: no
// tools, or no query that can be used, with what was wrong with them.
Result<ArgumentTasks> ResolveArgumentTasks(
    std::span<const schema::ToolSchema> tools,
    std::vector<LabelledQuery> queries);

// At most `limit` of them, drawn by `seed` and kept in order; 0: all. A larger
// limit holds the draw of a smaller one.
void DrawTasks(size_t limit, uint64_t seed, std::vector<ArgumentTask>* tasks);

}  // namespace nexus::eval

#endif  // NEXUS_EVAL_ARGUMENT_TASKS_H_
