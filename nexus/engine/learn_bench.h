// LearnBench: what learning from traffic costs, when it has paid for itself,
// how good the learned blocks are, and what rounding the stored mean costs.
//
// Break-even in uses: the smallest n at which n uses with Nexus, compiling and
// learning included, take no longer than n text prefills.
//
//   with traffic      k + k L / (P - S)   the first k uses are prefills anyway
//   compiled offline  C / (P - S)
//
// P and S are the times from a history in the cache to the first logits, by
// text and by splice; L is one fold, C the compile of this tool alone.
#ifndef NEXUS_ENGINE_LEARN_BENCH_H_
#define NEXUS_ENGINE_LEARN_BENCH_H_

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/engine/engine.h"
#include "nexus/engine/session.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::engine {

struct LearnBenchOptions {
  std::vector<schema::ToolSchema> tools;  // each is learned on its own
  int samples = 32;                       // folded into each tool's block
  int history_tokens = 256;               // of each sample, at most
  int test_histories = 2;
  int fidelity_tokens = 24;
  int compile_contexts = 4;  // of the offline arm
  std::function<void(const std::string& step)> progress;
  const std::atomic<bool>* cancel = nullptr;
};

// The stored mean, rounded to the file's float16 at each fold, against the same
// samples' mean in float32. Shares of the mean's own length, over all layers
// and tokens.
struct FoldError {
  int samples = 0;
  double k = 0;
  double v = 0;
  double v_once = 0;   // rounded once at the end: what any float16 file costs
  double v_drift = 0;  // of a sample from the mean: what the error is held to
  double sensitivity = 0;  // largest relative error of a token's
};

// A block's splice against full prefill, behind histories it has not seen.
struct LearnFidelity {
  std::string block;  // "learned" or "compiled"
  int samples = 0;
  double share = 0;  // re-decoded, by sensitivity
  double kl_mean = 0;
  double top1 = 0;
  int positions = 0;
  double splice_ms = 0;  // median: S
};

struct LearnBenchResult {
  int block_tokens = 0;                 // all tools
  double block_bytes = 0;               // a token, of the learned blocks' files
  double prefill_ms = 0;                // P, medians over tools
  double learn_ms = 0;                  // L
  double compile_ms = 0;                // C, mean over tools
  std::vector<FoldError> folds;         // mean over tools
  std::vector<LearnFidelity> fidelity;  // all tools together
};

// The engine's store must hold no blocks of these tools; it has them
// afterwards.
Result<LearnBenchResult> RunLearnBench(const Engine& engine,
                                       const LearnBenchOptions& options);

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_LEARN_BENCH_H_
