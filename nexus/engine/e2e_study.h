// E2eStudy: a labelled query through the router and the argument generator, and
// the same with every schema of the pool in the prompt, where that fits.
//
// The tool is the router's first candidate, as in `nexus ask`; nothing is
// generated when it abstains. A call is right when the tool is (or a twin of
// it) and its arguments are exact.
#ifndef NEXUS_ENGINE_E2E_STUDY_H_
#define NEXUS_ENGINE_E2E_STUDY_H_

#include <atomic>
#include <functional>
#include <optional>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/engine/argument_runner.h"
#include "nexus/engine/argument_study.h"
#include "nexus/eval/argument_tasks.h"
#include "nexus/eval/route_study.h"

namespace nexus::engine {

struct E2eOptions {
  eval::RouteStudyOptions route;  // one size, one seed
  std::vector<eval::ArgumentForm> forms;
  // Queries that the baseline is decoded for; its tokens are counted for all.
  int baseline_queries = 0;
  std::function<void(const ArgumentStudyProgress&)> progress;
  const std::atomic<bool>* cancel = nullptr;
};

// A call and whether it is right.
struct E2eCall {
  eval::ArgumentTrial trial;
  bool tool_right = false;
  bool exact = false;  // the tool too
};

struct E2eTrial {
  int task = 0;
  int pool_tools = 0;
  route::Outcome outcome = route::Outcome::kAbstain;
  int chosen = -1;  // of the registry; -1: abstained
  bool tool_right = false;
  std::vector<E2eCall> calls;  // one a form; empty when abstained
  int list_tokens = 0;         // of the prompt with every schema of the pool
  bool list_fits = false;
  std::optional<E2eCall> list;
};

struct E2eStudy {
  std::vector<eval::ArgumentForm> forms;
  std::vector<eval::ArgumentTask> tasks;
  std::vector<E2eTrial> trials;
  int registry_tools = 0;
  int context_tokens = 0;
  // So many tools of the registry's mean size fill the context.
  int overflow_tools = 0;
  double schema_tokens_mean = 0;
  std::vector<std::string> warnings;
};

// Errors as RunRouteStudy and ArgumentRunner.
Result<E2eStudy> RunE2eStudy(const Engine& engine, ArgumentRunner& runner,
                             std::vector<schema::ToolSchema> tools,
                             std::vector<eval::ArgumentTask> tasks,
                             const eval::RouteStudyModels& models,
                             const E2eOptions& options);

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_E2E_STUDY_H_
