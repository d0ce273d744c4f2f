// ComposeSummary: what the trials of `nexus bench compose` say, however many of
// them there are yet. A pure function of the trials.
#ifndef NEXUS_ENGINE_COMPOSE_SUMMARY_H_
#define NEXUS_ENGINE_COMPOSE_SUMMARY_H_

#include <span>
#include <string>
#include <vector>

#include "nexus/base/paired_stats.h"
#include "nexus/engine/compose_trial.h"

namespace nexus::engine {

// Of the questions that both the arm and the reference were asked: a study that
// was stopped has asked some arms more than others.
struct ComposeArmResult {
  std::string name;
  int n = 0;
  int n_args = 0;  // questions whose arguments are known
  int choice_right = 0;
  int args_right = 0;
  int reference_choice_right = 0;
  int reference_args_right = 0;
  int same_choice = 0;  // as the reference
  int same = 0;         // name and arguments
  // Over all positions of all questions; in nats.
  double kl_mean = 0;
  double kl_p99 = 0;
  double first_kl = 0;    // at the name's first token
  double first_top1 = 0;  // share
  double recompute_share = 0;
  double list_ms = 0;  // laying the list down, mean
  int laid_down = 0;   // how often that was
  int most_list_tokens = 0;
  // Of right choices against the reference's.
  double mcnemar_p = 1;
  Interval choice_ci95;      // Wilson, of choice_right
  Interval args_ci95;        // Wilson, of args_right
  Interval difference_ci95;  // arm less reference, choice; bootstrap
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

// `arms`: those to report, in order; empty: all that there are, by name. An arm
// without trials has n == 0. Trials of an arm whose reference is missing don't
// count.
ComposeBenchResult SummarizeCompose(const ComposeTrials& trials, int blocks,
                                    std::span<const std::string> arms);

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_COMPOSE_SUMMARY_H_
