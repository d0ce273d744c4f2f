// CallBench: how many of the generated calls are valid against their tool's own
// schema. A call that was cut off counts as invalid.
#ifndef NEXUS_ENGINE_CALL_BENCH_H_
#define NEXUS_ENGINE_CALL_BENCH_H_

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/engine/call_generator.h"
#include "nexus/engine/engine.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::engine {

struct CallBenchOptions {
  std::vector<schema::ToolSchema> tools;
  int calls = 200;
  ArgumentMode mode = ArgumentMode::kSchema;
  // Every other call samples at this temperature: greedy alone would ask each
  // tool the same thing.
  float temperature = 0.8F;
  int max_tokens = 256;
  std::function<void(int done, int total)> progress;
  const std::atomic<bool>* cancel = nullptr;
};

struct CallBenchResult {
  int calls = 0;
  int json_objects = 0;
  int valid = 0;
  int repaired = 0;         // valid only after the repair round
  int closed_at_limit = 0;  // steered to an end near max_tokens
  int relaxed_tools = 0;    // tools whose grammar couldn't hold all constraints
  int64_t sampled_tokens = 0;
  // "tool: reason", one an invalid call.
  std::vector<std::string> invalid;
};

// The tool is given, the question is made from its description; each block
// comes by the cheapest tier there is.
Result<CallBenchResult> RunCallBench(const Engine& engine,
                                     const CallBenchOptions& options);

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_CALL_BENCH_H_
