// TtftBench: time to first token of every tier against full prefill, in one
// run, over the same tokens; with the fidelity of what was timed beside it.
//
// Arms are interleaved and medians compared, since machines are shared and
// noisy. The history is in the context before the clock starts, as it is in a
// conversation; the clock runs until the first token of the arguments is
// sampled.
#ifndef NEXUS_ENGINE_TTFT_BENCH_H_
#define NEXUS_ENGINE_TTFT_BENCH_H_

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/engine/engine.h"
#include "nexus/engine/session.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::engine {

struct TtftBenchOptions {
  int past_tokens = 256;
  int schema_tokens = 400;
  int query_tokens = 40;
  int runs = 5;
  int all_schemas_runs = 1;  // seconds to minutes each; 0: leave the arm out
  int fidelity_tokens = 40;
  int contexts = 4;  // compile contexts, where the block isn't in the store yet
  PrepareOptions splice;
  // Where the schema comes from: the tool whose block is nearest to
  // schema_tokens; a generated one where none is within a quarter of it.
  std::vector<schema::ToolSchema> tools;
  std::function<void(const std::string& step)> progress;
  const std::atomic<bool>* cancel = nullptr;
};

struct TtftBenchResult {
  std::string tool;
  std::string prefill_setting;  // the faster of the engine's two
  int past_tokens = 0;
  int schema_tokens = 0;
  int query_tokens = 0;
  int preamble_tokens = 0;
  int all_schemas_tokens = 0;
  int tool_count = 0;
  double prefill_ms = 0;
  double exact_prefix_ms = 0;
  double splice_ms = 0;
  double all_schemas_ms = 0;  // 0: not run
  int all_schemas_runs = 0;
  // Parts of the splice arm, medians.
  double lookup_ms = 0;
  double write_ms = 0;
  double repair_ms = 0;
  double decode_ms = 0;
  double recompute_share = 0;
  size_t block_bytes = 0;
  size_t staging_bytes = 0;
  // Growth of the process's resident memory over one splice with the block
  // held, the KV cache itself not counted; 0 where the system doesn't tell.
  size_t added_bytes = 0;
  double kl_mean = 0;
  double kl_noise_floor = 0;  // full prefill against itself, other batch split
  double top1 = 0;
  int kl_positions = 0;
  int runs = 0;
};

Result<TtftBenchResult> RunTtftBench(const Engine& engine,
                                     const TtftBenchOptions& options);

// A plausible tool whose block has about `block_tokens` tokens.
Result<schema::ToolSchema> GeneratedTool(const Engine& engine,
                                         int block_tokens);

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_TTFT_BENCH_H_
