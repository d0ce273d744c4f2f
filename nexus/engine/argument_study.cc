#include "nexus/engine/argument_study.h"

#include <utility>

namespace nexus::engine {

Result<std::vector<eval::ArgumentRun>> RunArgumentStudy(
    ArgumentRunner& runner, std::span<const schema::ToolSchema> tools,
    std::span<const eval::ArgumentTask> tasks,
    const ArgumentStudyOptions& options) {
  std::vector<eval::ArgumentRun> runs(options.forms.size());
  for (size_t i = 0; i < runs.size(); ++i) {
    runs[i].form = options.forms[i];
    runs[i].trials.resize(tasks.size());
  }
  ArgumentStudyProgress progress;
  progress.total = static_cast<int>(tasks.size() * runs.size());
  for (size_t task = 0; task < tasks.size(); ++task) {
    const schema::ToolSchema& tool =
        tools[static_cast<size_t>(tasks[task].tool)];
    for (size_t i = 0; i < runs.size(); ++i) {
      if (options.cancel != nullptr && options.cancel->load()) {
        return CancelledError("interrupted after " +
                              std::to_string(progress.done) + " of " +
                              std::to_string(progress.total) + " calls");
      }
      // Another form goes first each time: the first one after a pause, or
      // after a tool's schema, may find warmer or colder caches.
      eval::ArgumentRun& run = runs[(i + task) % runs.size()];
      NEXUS_ASSIGN_OR_RETURN(
          run.trials[task], runner.Run(tool, tasks[task].query.text, run.form));
      ++progress.done;
      progress.generated += runner.was_known() ? 0 : 1;
      if (options.progress) options.progress(progress);
    }
  }
  return runs;
}

}  // namespace nexus::engine
