// ComposeBench: what a list of spliced blocks does to tool choice and
// arguments.
//
// A list of tools is laid down once and asked many questions, as a list that is
// reused would be. The reference decodes the list as text; each arm splices it.
// Same ids everywhere: only the cells differ. Judged against the reference (KL
// at the reference's own sampled positions, the same call) and, both alike,
// against the known answers.
#ifndef NEXUS_ENGINE_COMPOSE_BENCH_H_
#define NEXUS_ENGINE_COMPOSE_BENCH_H_

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/paired_stats.h"
#include "nexus/base/result.h"
#include "nexus/engine/compose_queries.h"
#include "nexus/engine/engine.h"
#include "nexus/engine/list_compile.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::engine {

// "exact": the list decoded as text again, for the noise floor. Else
// RECIPE:PERCENT[+gold|+topK]: blocks of the recipe, repaired by sensitivity
// within so many percent; +gold decodes the right tool's block whole (what a
// perfect router would give), +topK the K blocks that BM25 ranks first.
struct ComposeArm {
  std::string name;
  bool is_exact = false;
  ListNeighbours neighbours = ListNeighbours::kGeneric;
  double share = 0;
  bool decode_gold = false;
  int decode_top = 0;

  bool depends_on_question() const { return decode_gold || decode_top > 0; }
};

// kInvalidArgument names what is wrong with it.
Result<ComposeArm> ParseComposeArm(std::string_view text);

struct ComposeBenchOptions {
  std::vector<schema::ToolSchema> tools;
  std::vector<ComposeQuery> queries;
  int blocks = 5;
  int n = 40;       // questions
  int samples = 6;  // of the recipes
  std::vector<ComposeArm> arms;
  int max_argument_tokens = 96;
  int kl_positions = 24;  // a question
  std::function<void(int done, int total, const std::string& step)> progress;
  const std::atomic<bool>* cancel = nullptr;
};

struct ComposeArmResult {
  std::string name;
  int n = 0;
  int n_args = 0;  // questions whose arguments are known
  int choice_right = 0;
  int args_right = 0;
  int same_choice = 0;  // as the reference
  int same = 0;         // name and arguments
  double kl_mean = 0;
  double kl_p99 = 0;
  double first_kl = 0;    // at the name's first token
  double first_top1 = 0;  // share
  double recompute_share = 0;
  double list_ms = 0;  // laying the list down, per list or question
  int laid_down = 0;   // how often that was
  // Of right choices against the reference's.
  double mcnemar_p = 1;
  Interval choice_ci95;      // Wilson, of choice_right
  Interval args_ci95;        // Wilson, of args_right
  Interval difference_ci95;  // arm less reference, choice
  Interval args_difference_ci95;
  double args_mcnemar_p = 1;
};

struct ComposeBenchResult {
  int blocks = 0;
  int lists = 0;
  double list_tokens = 0;  // mean
  ComposeArmResult reference;
  std::vector<ComposeArmResult> arms;
  std::vector<std::string> notes;  // why a splice wasn't one
};

// Compiles the blocks that the arms need into the engine's store.
Result<ComposeBenchResult> RunComposeBench(const Engine& engine,
                                           const ComposeBenchOptions& options);

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_COMPOSE_BENCH_H_
