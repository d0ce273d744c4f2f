#include "nexus/calibrate/fidelity_cells.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <utility>

#include "nexus/calibrate/drift.h"

namespace nexus::calibrate {
namespace {

constexpr int kBootstrapRounds = 1000;

double Mean(std::span<const double> values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) /
         static_cast<double>(values.size());
}

// `share` of the values lie at or below the result.
double Quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto at =
      std::min(values.size() - 1,
               static_cast<size_t>(share * static_cast<double>(values.size())));
  std::nth_element(values.begin(),
                   values.begin() + static_cast<std::ptrdiff_t>(at),
                   values.end());
  return values[at];
}

struct Sample {
  const Trial* trial;
  const TrialArm* arm;
};

// Of the pooled mean: trials are drawn with replacement, each with all of its
// positions. A fixed seed: the same trials always give the same interval.
std::pair<double, double> Bootstrap(std::span<const Sample> samples) {
  std::vector<std::pair<double, double>> sums;  // KL, positions
  for (const Sample& sample : samples) {
    sums.emplace_back(
        std::accumulate(sample.arm->kl.begin(), sample.arm->kl.end(), 0.0),
        static_cast<double>(sample.arm->kl.size()));
  }
  std::mt19937 random(1);
  std::uniform_int_distribution<size_t> pick(0, sums.size() - 1);
  std::vector<double> means;
  for (int round = 0; round < kBootstrapRounds; ++round) {
    double kl = 0;
    double positions = 0;
    for (size_t i = 0; i < sums.size(); ++i) {
      const auto& [sum, count] = sums[pick(random)];
      kl += sum;
      positions += count;
    }
    if (positions > 0) means.push_back(kl / positions);
  }
  return {Quantile(means, 0.025), Quantile(means, 0.975)};
}

FidelityCell Gather(std::span<const Sample> samples) {
  FidelityCell cell;
  std::vector<double> kl;
  std::vector<double> ratios;
  int equal = 0;
  int first_equal = 0;
  for (const auto& [trial, arm] : samples) {
    kl.insert(kl.end(), arm->kl.begin(), arm->kl.end());
    equal +=
        static_cast<int>(std::count(arm->top1.begin(), arm->top1.end(), 1));
    first_equal += !arm->top1.empty() && arm->top1.front() != 0 ? 1 : 0;
    cell.recompute_share += arm->recompute_share;
    cell.runs += arm->runs;
    if (arm->ttft_ms > 0) ratios.push_back(trial->prefill_ms / arm->ttft_ms);
  }
  const auto n = static_cast<double>(samples.size());
  cell.depth = samples.front().trial->depth;
  cell.noise = samples.front().arm->noise;
  cell.arm = samples.front().arm->arm;
  cell.n = static_cast<int>(samples.size());
  cell.positions = static_cast<int>(kl.size());
  cell.recompute_share /= n;
  cell.runs /= n;
  cell.kl_mean = Mean(kl);
  std::tie(cell.kl_low, cell.kl_high) = Bootstrap(samples);
  cell.kl_p99 = Quantile(kl, 0.99);
  cell.kl_max = kl.empty() ? 0 : *std::max_element(kl.begin(), kl.end());
  cell.top1 = kl.empty()
                  ? 0
                  : static_cast<double>(equal) / static_cast<double>(kl.size());
  cell.first_top1 = static_cast<double>(first_equal) / n;
  cell.ttft_ratio = Quantile(ratios, 0.5);
  return cell;
}

bool SameArm(const TrialArm& a, const TrialArm& b) {
  return a.noise == b.noise && (a.noise || a.arm == b.arm);
}

}  // namespace

std::vector<FidelityCell> GatherCells(std::span<const Trial> trials) {
  std::vector<std::vector<Sample>> groups;
  for (const Trial& trial : trials) {
    for (const TrialArm& arm : trial.arms) {
      const auto found =
          std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
            return group.front().trial->depth == trial.depth &&
                   SameArm(*group.front().arm, arm);
          });
      if (found == groups.end()) {
        groups.push_back({{&trial, &arm}});
      } else {
        found->push_back({&trial, &arm});
      }
    }
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) {
                     return a.front().trial->depth < b.front().trial->depth;
                   });
  std::vector<FidelityCell> cells;
  for (const std::vector<Sample>& group : groups) {
    cells.push_back(Gather(group));
  }
  return cells;
}

DriftCorrelation Correlate(std::span<const Trial> trials) {
  DriftCorrelation result;
  std::vector<double> predicted;
  std::vector<double> predicted_kl;
  std::vector<double> proxy;
  std::vector<double> pure_kl;
  for (const Trial& trial : trials) {
    result.token_sensitivity += trial.rho_sensitivity;
    result.token_k_variance += trial.rho_k_variance;
    for (const TrialArm& arm : trial.arms) {
      if (arm.noise) continue;
      if (arm.predicted > 0) {
        predicted.push_back(arm.predicted);
        predicted_kl.push_back(Mean(arm.kl));
      }
      // The proxy knows nothing of a repair, nor of other cells.
      if (arm.arm.policy == kv::RepairPolicy::kNone && arm.arm.shared == 0) {
        proxy.push_back(trial.k_variance);
        pure_kl.push_back(Mean(arm.kl));
      }
    }
  }
  if (!trials.empty()) {
    result.token_sensitivity /= static_cast<double>(trials.size());
    result.token_k_variance /= static_cast<double>(trials.size());
  }
  result.splice_sensitivity = SpearmanRho(predicted, predicted_kl);
  result.splice_k_variance = SpearmanRho(proxy, pure_kl);
  result.trials = static_cast<int>(trials.size());
  result.splices = static_cast<int>(predicted.size());
  return result;
}

std::string ArmName(const StudyArm& arm) {
  std::string name(kv::RepairPolicyName(arm.policy));
  if (arm.share > 0) {
    name += " " + std::to_string(std::lround(100 * arm.share)) + " %";
  }
  if (arm.min_run > 0) name += " /" + std::to_string(arm.min_run);
  if (!arm.storage.is_as_cached()) {
    name += " " + kv::BlockStorageName(arm.storage);
  }
  if (arm.shared > 0) {
    name += " @" + std::to_string(std::lround(100 * arm.shared)) + " %";
  }
  return name;
}

Json CellToJson(const FidelityCell& cell) {
  return {{"frame", "late"},
          {"blocks", cell.blocks},
          {"depth", cell.depth},
          {"policy", kv::RepairPolicyName(cell.arm.policy)},
          {"budget", cell.arm.share},
          {"contexts", cell.arm.contexts},
          {"storage", kv::BlockStorageName(cell.arm.storage)},
          {"shared", cell.arm.shared},
          {"min_run", cell.arm.min_run},
          {"recompute_share", cell.recompute_share},
          {"runs", cell.runs},
          {"kl_mean", cell.kl_mean},
          {"kl_ci95", {cell.kl_low, cell.kl_high}},
          {"kl_p99", cell.kl_p99},
          {"kl_max", cell.kl_max},
          {"top1", cell.top1},
          {"first_top1", cell.first_top1},
          {"ttft_ratio", cell.ttft_ratio},
          {"n", cell.n},
          {"positions", cell.positions}};
}

}  // namespace nexus::calibrate
