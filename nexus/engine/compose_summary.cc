#include "nexus/engine/compose_summary.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

namespace nexus::engine {
namespace {

// [pair] -> trial of the reference, of one arm.
using ByPair = std::map<std::string, const ComposeTrial*>;

struct Tally {
  ComposeArmResult result;
  std::vector<double> kl;
  double first_kl = 0;
  int first_top1 = 0;
  int firsts = 0;
  int only_reference = 0;  // right
  int only_arm = 0;
  int args_only_reference = 0;
  int args_only_arm = 0;
  std::vector<double> differences;
  std::vector<double> args_differences;
  double spliced = 0;
  double recomputed = 0;

  void Add(const ComposeTrial& trial) {
    ++result.n;
    result.choice_right += trial.choice_right ? 1 : 0;
    if (trial.args_right.has_value()) {
      ++result.n_args;
      result.args_right += *trial.args_right ? 1 : 0;
    }
    result.most_list_tokens =
        std::max(result.most_list_tokens, trial.list_tokens);
    if (!trial.laying.has_value()) return;
    ++result.laid_down;
    result.list_ms += trial.laying->ms;
    spliced += trial.laying->spliced;
    recomputed += trial.laying->recomputed;
  }

  void Compare(const ComposeTrial& trial, const ComposeTrial& reference) {
    const bool same_choice = trial.tool == reference.tool;
    result.same_choice += same_choice ? 1 : 0;
    result.same += same_choice && trial.arguments == reference.arguments;
    result.reference_choice_right += reference.choice_right ? 1 : 0;
    only_reference += reference.choice_right && !trial.choice_right ? 1 : 0;
    only_arm += trial.choice_right && !reference.choice_right ? 1 : 0;
    differences.push_back((trial.choice_right ? 1.0 : 0.0) -
                          (reference.choice_right ? 1.0 : 0.0));
    if (trial.args_right.has_value()) {
      const bool right = *trial.args_right;
      const bool reference_right = reference.args_right.value_or(false);
      result.reference_args_right += reference_right ? 1 : 0;
      args_only_reference += reference_right && !right ? 1 : 0;
      args_only_arm += right && !reference_right ? 1 : 0;
      args_differences.push_back((right ? 1.0 : 0.0) -
                                 (reference_right ? 1.0 : 0.0));
    }
    kl.insert(kl.end(), trial.kl.begin(), trial.kl.end());
    if (trial.kl.empty()) return;
    ++firsts;
    first_kl += trial.kl.front();
    first_top1 += trial.first_top1 ? 1 : 0;
  }

  ComposeArmResult Finish() {
    if (!kl.empty()) {
      std::sort(kl.begin(), kl.end());
      result.kl_mean = std::accumulate(kl.begin(), kl.end(), 0.0) /
                       static_cast<double>(kl.size());
      result.kl_p99 = kl[(kl.size() - 1) * 99 / 100];
    }
    if (firsts > 0) {
      result.first_kl = first_kl / firsts;
      result.first_top1 = static_cast<double>(first_top1) / firsts;
    }
    if (spliced + recomputed > 0) {
      result.recompute_share = recomputed / (spliced + recomputed);
    }
    if (result.laid_down > 0) result.list_ms /= result.laid_down;
    result.mcnemar_p = McNemarExact(only_reference, only_arm);
    result.args_mcnemar_p = McNemarExact(args_only_reference, args_only_arm);
    result.choice_ci95 = WilsonInterval(result.choice_right, result.n);
    result.args_ci95 = WilsonInterval(result.args_right, result.n_args);
    result.difference_ci95 = BootstrapMean(differences);
    result.args_difference_ci95 = BootstrapMean(args_differences);
    return result;
  }
};

}  // namespace

ComposeBenchResult SummarizeCompose(const ComposeTrials& trials, int blocks,
                                    std::span<const std::string> arms) {
  std::map<std::string, ByPair> by_arm;
  std::set<std::string> notes;
  std::map<std::string, int> lists;  // and their tokens
  for (const auto& [key, trial] : trials) {
    by_arm[trial.arm][trial.Pair()] = &trial;
    lists[trial.list] = trial.list_tokens;
    if (trial.laying.has_value()) {
      notes.insert(trial.laying->notes.begin(), trial.laying->notes.end());
    }
  }
  const ByPair references = std::move(by_arm[std::string(kComposeReference)]);
  by_arm.erase(std::string(kComposeReference));

  ComposeBenchResult result;
  result.blocks = blocks;
  result.notes.assign(notes.begin(), notes.end());
  result.lists = static_cast<int>(lists.size());
  for (const auto& [list, tokens] : lists) result.list_tokens += tokens;
  if (!lists.empty()) {
    result.list_tokens /= static_cast<double>(lists.size());
  }
  Tally of_reference;
  for (const auto& [pair, trial] : references) of_reference.Add(*trial);
  result.reference = of_reference.Finish();
  result.reference.name = kComposeReference;
  std::vector<std::string> names(arms.begin(), arms.end());
  if (names.empty()) {
    for (const auto& [name, of_arm] : by_arm) names.push_back(name);
  }
  for (const std::string& name : names) {
    Tally tally;
    tally.result.name = name;
    for (const auto& [pair, trial] : by_arm[name]) {
      const auto reference = references.find(pair);
      if (reference == references.end()) continue;
      tally.Add(*trial);
      tally.Compare(*trial, *reference->second);
    }
    result.arms.push_back(tally.Finish());
  }
  return result;
}

}  // namespace nexus::engine
