// DeterminismBench: are a session's bytes the same whatever its neighbours do?
//
// Each session has a context of its own over shared weights and follows a
// script of its own (another conversation, another tool; spliced, exact prefix,
// prefilled, exact variant). It runs alone, then step by step between the
// others in random orders, then on a thread of its own beside theirs. Generated
// tokens and a hash of every row of logits are compared with the run alone.
//
// The control does what Nexus doesn't: two conversations in one context. If its
// bits stayed the same too, equal hashes would prove little.
#ifndef NEXUS_ENGINE_DETERMINISM_BENCH_H_
#define NEXUS_ENGINE_DETERMINISM_BENCH_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/engine/determinism_script.h"
#include "nexus/engine/engine.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::engine {

struct DeterminismOptions {
  int sessions = 8;
  int orders = 3;             // random interleavings on one thread
  int concurrent_rounds = 1;  // all sessions at once, a thread each
  int schema_tokens = 160;    // of generated tools
  ScriptShape shape;
  uint64_t seed = 1;
  // One a session, in turn; empty: generated ones.
  std::vector<schema::ToolSchema> tools;
  std::function<void(double share, const std::string& step)> progress;
  const std::atomic<bool>* cancel = nullptr;
};

struct DeterminismSession {
  std::string name;
  std::string tool;
  int steps = 0;
  ScriptTrace alone;
};

struct DeterminismControl {
  bool logits_hash_equal = false;
  double largest_difference = 0;  // of a logit
};

struct DeterminismResult {
  bool tokens_equal = true;
  bool logits_hash_equal = true;
  int orders = 0;
  int concurrent_rounds = 0;
  int64_t rows_compared = 0;  // rows of logits, over all runs but the first
  std::vector<DeterminismSession> sessions;
  // "splice 1, order 2: step 7 of 19 differs", one a run that differed.
  std::vector<std::string> differences;
  DeterminismControl shared_context;
};

// kUnimplemented: this model can't be spliced, or a tier isn't to be had.
Result<DeterminismResult> RunDeterminismBench(
    const Engine& engine, const DeterminismOptions& options);

// Adds what differs between two runs of a session to `result`. `run` names the
// second one.
void CompareTraces(const DeterminismSession& session, const ScriptTrace& other,
                   const std::string& run, DeterminismResult* result);

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_DETERMINISM_BENCH_H_
