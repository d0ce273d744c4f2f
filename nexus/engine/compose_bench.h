// ComposeBench: what a list of spliced blocks does to tool choice and
// arguments.
//
// A list of tools is laid down once and asked many questions, as a list that is
// reused would be. The reference decodes the list as text; each arm splices it.
// Same ids everywhere: only the cells differ. Judged against the reference (KL
// at the reference's own sampled positions, the same call) and, both alike,
// against the known answers.
//
// Every call is kept in a log as it is made (compose_trial.h), and what the log
// has isn't asked again: hours of it can be stopped, and parts of the lists
// measured elsewhere. compose_summary.h says what the trials show.
#ifndef NEXUS_ENGINE_COMPOSE_BENCH_H_
#define NEXUS_ENGINE_COMPOSE_BENCH_H_

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/engine/compose_arm.h"
#include "nexus/engine/compose_queries.h"
#include "nexus/engine/compose_trial.h"
#include "nexus/engine/engine.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::engine {

struct ComposeBenchOptions {
  std::vector<schema::ToolSchema> tools;
  std::vector<ComposeQuery> queries;
  int blocks = 5;
  int n = 40;    // questions, of this part
  int part = 1;  // ComposeListOptions
  int parts = 1;
  int samples = 6;  // of the recipes
  std::vector<ComposeArm> arms;
  int max_argument_tokens = 96;
  int kl_positions = 24;  // a question
  std::function<void(int done, int total, const std::string& step)> progress;
  const std::atomic<bool>* cancel = nullptr;
};

// What must be the same for two trials to be of one comparison. Arms, n and
// parts may differ.
Json ComposeIdentity(const Engine& engine, const ComposeBenchOptions& options);

// Asks what `log` hasn't. Compiles the blocks that the arms need into the
// engine's store, those of the next few lists at a time. kCancelled: what was
// asked is in the log.
Status RunComposeBench(const Engine& engine, const ComposeBenchOptions& options,
                       ComposeLog* log);

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_COMPOSE_BENCH_H_
