// ArgumentStudy: labelled tasks in several forms, side by side in one run: for
// each task one form after the other, so that a busy machine is busy for all.
#ifndef NEXUS_ENGINE_ARGUMENT_STUDY_H_
#define NEXUS_ENGINE_ARGUMENT_STUDY_H_

#include <atomic>
#include <functional>
#include <span>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/engine/argument_runner.h"
#include "nexus/eval/argument_summary.h"

namespace nexus::engine {

struct ArgumentStudyProgress {
  int done = 0;  // calls
  int total = 0;
  int generated = 0;  // of those done, not from the log
};

struct ArgumentStudyOptions {
  std::vector<eval::ArgumentForm> forms;
  std::function<void(const ArgumentStudyProgress&)> progress;
  const std::atomic<bool>* cancel = nullptr;
};

// One run a form, in the order of `forms`; a task's tool is in `tools`.
// kCancelled: what was generated is in the runner's log.
Result<std::vector<eval::ArgumentRun>> RunArgumentStudy(
    ArgumentRunner& runner, std::span<const schema::ToolSchema> tools,
    std::span<const eval::ArgumentTask> tasks,
    const ArgumentStudyOptions& options);

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_ARGUMENT_STUDY_H_
