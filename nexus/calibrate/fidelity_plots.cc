#include "nexus/calibrate/fidelity_plots.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <vector>

#include "nexus/base/line_chart.h"
#include "nexus/engine/repair_profile.h"

namespace nexus::calibrate {
namespace {

// The series of that name, made where it isn't there yet.
ChartSeries& Series(std::vector<ChartSeries>& all, const std::string& name) {
  const auto found =
      std::find_if(all.begin(), all.end(),
                   [&](const ChartSeries& one) { return one.name == name; });
  if (found != all.end()) return *found;
  all.push_back({.name = name});
  return all.back();
}

double NoiseFloor(std::span<const FidelityCell> cells) {
  double kl = 0;
  int positions = 0;
  for (const FidelityCell& cell : cells) {
    if (!cell.noise) continue;
    kl += cell.kl_mean * cell.positions;
    positions += cell.positions;
  }
  return positions > 0 ? kl / positions : 0;
}

double MeanKl(const TrialArm& arm) {
  return arm.kl.empty() ? 0
                        : std::accumulate(arm.kl.begin(), arm.kl.end(), 0.0) /
                              static_cast<double>(arm.kl.size());
}

// Points without lines: each is a series of one point under one name is no
// chart, so the values are put into ten groups of equal size and their means
// are joined.
std::vector<std::pair<double, double>> Grouped(
    std::vector<std::pair<double, double>> points) {
  constexpr size_t kGroups = 10;
  std::sort(points.begin(), points.end());
  std::vector<std::pair<double, double>> means;
  for (size_t group = 0; group < kGroups; ++group) {
    const size_t begin = points.size() * group / kGroups;
    const size_t end = points.size() * (group + 1) / kGroups;
    if (begin == end) continue;
    double x = 0;
    double y = 0;
    for (size_t i = begin; i < end; ++i) {
      x += points[i].first;
      y += points[i].second;
    }
    const auto count = static_cast<double>(end - begin);
    means.emplace_back(x / count, y / count);
  }
  return means;
}

// What a series says nothing else of: a compiled block, stored as cached, with
// the planner's own runs.
bool IsPlain(const StudyArm& arm) {
  return arm.shared == 0 && arm.storage.is_as_cached() && arm.min_run == 0;
}

}  // namespace

std::string PlotFidelity(std::span<const FidelityCell> cells,
                         const std::string& title, int contexts) {
  ChartPanel by_depth = {.title = "KL to full prefill, by depth",
                         .x_label = "tokens before the schema",
                         .y_label = "nats",
                         .log_x = true,
                         .log_y = true};
  ChartPanel by_share = {.title = "KL by share re-decoded (sensitivity)",
                         .x_label = "% of the block's tokens",
                         .y_label = "nats",
                         .log_y = true};
  ChartPanel speed = {.title = "TTFT, times faster than prefill",
                      .x_label = "tokens before the schema",
                      .y_label = "x",
                      .log_x = true};
  const double strict =
      engine::LimitsOf(engine::Budget::kStrict, NoiseFloor(cells)).kl_mean;
  ChartSeries noise = {.name = "noise floor", .dashed = true};
  ChartSeries limit = {.name = "strict limit", .dashed = true};
  ChartSeries share_limit = limit;
  bool has_shares = false;
  for (const FidelityCell& cell : cells) {
    const double depth = std::max(cell.depth, 1);
    if (cell.noise) {
      noise.points.emplace_back(depth, cell.kl_mean);
      limit.points.emplace_back(depth, strict);
      continue;
    }
    if (cell.arm.contexts != contexts) continue;
    Series(by_depth.series, ArmName(cell.arm))
        .points.emplace_back(depth, cell.kl_mean);
    Series(speed.series, ArmName(cell.arm))
        .points.emplace_back(depth, cell.ttft_ratio);
    if (IsPlain(cell.arm) &&
        (cell.arm.policy == kv::RepairPolicy::kSensitivity ||
         cell.arm.policy == kv::RepairPolicy::kNone)) {
      Series(by_share.series, "depth " + std::to_string(cell.depth))
          .points.emplace_back(100 * cell.recompute_share, cell.kl_mean);
      share_limit.points.emplace_back(100 * cell.recompute_share, strict);
      has_shares |= cell.recompute_share > 0;
    }
  }
  std::sort(share_limit.points.begin(), share_limit.points.end());
  by_depth.series.push_back(std::move(noise));
  by_depth.series.push_back(std::move(limit));
  by_share.series.push_back(std::move(share_limit));
  std::vector<ChartPanel> panels = {std::move(by_depth)};
  // A brief study re-decodes nothing by sensitivity.
  if (has_shares) panels.push_back(std::move(by_share));
  panels.push_back(std::move(speed));
  return RenderSvg(title, panels);
}

std::string PlotNegativeResults(std::span<const Trial> trials,
                                const std::string& title, int contexts) {
  ChartPanel pure = {.title = "Pure splice off its anchor",
                     .x_label = "tokens before the schema",
                     .y_label = "nats; share of changed top-1",
                     .log_x = true,
                     .log_y = true};
  ChartPanel proxy = {
      .title = "What predicts a splice's KL",
      .x_label = "predictor, from its least to its largest value",
      .y_label = "KL of the splice, nats (tenths of splices)",
      .log_y = true};
  ChartSeries kl = {.name = "KL mean"};
  ChartSeries changed = {.name = "top-1 changed"};
  ChartSeries noise = {.name = "noise floor", .dashed = true};
  for (const FidelityCell& cell : GatherCells(trials)) {
    const double depth = std::max(cell.depth, 1);
    if (cell.noise) {
      noise.points.emplace_back(depth, cell.kl_mean);
    } else if (IsPlain(cell.arm) && cell.arm.contexts == contexts &&
               cell.arm.policy == kv::RepairPolicy::kNone) {
      kl.points.emplace_back(depth, cell.kl_mean);
      changed.points.emplace_back(depth, 1 - cell.top1);
    }
  }
  pure.series = {std::move(kl), std::move(changed), std::move(noise)};
  std::vector<std::pair<double, double>> variance;
  std::vector<std::pair<double, double>> sensitivity;
  for (const Trial& trial : trials) {
    for (const TrialArm& arm : trial.arms) {
      if (arm.noise || !IsPlain(arm.arm) || arm.arm.contexts != contexts) {
        continue;
      }
      if (arm.arm.policy == kv::RepairPolicy::kNone) {
        variance.emplace_back(trial.k_variance, MeanKl(arm));
      }
      if (arm.predicted > 0) {
        sensitivity.emplace_back(arm.predicted, MeanKl(arm));
      }
    }
  }
  for (auto* points : {&variance, &sensitivity}) {
    if (points->empty()) continue;
    // From the least value on: K variances differ by a hundredth.
    const auto [low, high] =
        std::minmax_element(points->begin(), points->end());
    const double least = low->first;
    const double span = std::max(high->first - least, 1e-12);
    for (auto& point : *points) point.first = (point.first - least) / span;
  }
  proxy.series = {{.name = "K variance", .points = Grouped(variance)},
                  {.name = "sensitivity left", .points = Grouped(sensitivity)}};
  const std::array<ChartPanel, 2> panels = {pure, proxy};
  return RenderSvg(title, panels);
}

}  // namespace nexus::calibrate
