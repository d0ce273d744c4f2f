#include "nexus/calibrate/profile_fit.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <tuple>
#include <vector>

namespace nexus::calibrate {
namespace {

using engine::Budget;
using engine::BudgetLimits;
using engine::RepairRow;

// A kind of block, as RepairRow tells them apart.
struct Kind {
  double shared = 0;
  int contexts = 0;
  kv::BlockStorage storage = {};

  static Kind Of(const StudyArm& arm) {
    if (arm.shared > 0) return {.shared = arm.shared};
    return {.contexts = arm.contexts, .storage = arm.storage};
  }
  auto Order() const {
    return std::tuple(shared, contexts, storage.k, storage.v);
  }
  friend bool operator<(const Kind& a, const Kind& b) {
    return a.Order() < b.Order();
  }
};

bool Keeps(const FidelityCell& cell, const BudgetLimits& limits) {
  return cell.kl_high <= limits.kl_mean && cell.top1 >= limits.top1;
}

// How far a cell is from its limits: up to 1 keeps them both.
double Excess(const FidelityCell& cell, const BudgetLimits& limits) {
  return std::max(cell.kl_high / std::max(limits.kl_mean, 1e-9),
                  (1 - cell.top1) / std::max(1 - limits.top1, 1e-9));
}

// The limits that it breaks, with what it would have had to keep.
std::string Describe(const FidelityCell& cell, const BudgetLimits& limits) {
  char text[200];
  std::snprintf(text, sizeof text, "the nearest, %s at %.0f %%, leaves ",
                std::string(kv::RepairPolicyName(cell.arm.policy)).c_str(),
                100 * cell.recompute_share);
  std::string all = text;
  if (cell.kl_high > limits.kl_mean) {
    std::snprintf(text, sizeof text,
                  "KL %.4f (up to %.4f by %d trials; limit %.4f)", cell.kl_mean,
                  cell.kl_high, cell.n, limits.kl_mean);
    all += text;
  }
  if (cell.top1 < limits.top1) {
    if (cell.kl_high > limits.kl_mean) all += " and ";
    std::snprintf(text, sizeof text,
                  "top-1 %.1f %% (of %d positions; limit %.1f %%)",
                  100 * cell.top1, cell.positions, 100 * limits.top1);
    all += text;
  }
  return all + " at depth " + std::to_string(cell.depth);
}

class Fitter {
 public:
  // Of the cells of one kind of block.
  Fitter(std::span<const FidelityCell> cells, const Kind& kind) : kind_(kind) {
    for (const FidelityCell& cell : cells) {
      if (!IsCandidate(cell) || Kind::Of(cell.arm).Order() != kind.Order()) {
        continue;
      }
      cells_.push_back(&cell);
      depths_.insert(cell.depth);
    }
  }

  // The planner's own runs, and a policy that somebody has when a request
  // comes.
  static bool IsCandidate(const FidelityCell& cell) {
    return !cell.noise && cell.arm.min_run == 0 &&
           cell.arm.policy != kv::RepairPolicy::kDeviation;
  }

  const std::set<int>& depths() const { return depths_; }

  RepairRow RowFor(Budget budget, const BudgetLimits& limits, int shallow,
                   int depth) const {
    const FidelityCell* best = nullptr;
    const FidelityCell* nearest = nullptr;  // if none keeps the budget
    for (const FidelityCell* cell : cells_) {
      if (cell->depth != depth) continue;
      if (budget == Budget::kFast &&
          cell->arm.policy != kv::RepairPolicy::kNone) {
        continue;
      }
      const FidelityCell* other = At(shallow, cell->arm);
      if (other == nullptr) continue;
      const FidelityCell* broken =
          Excess(*cell, limits) >= Excess(*other, limits) ? cell : other;
      if (nearest == nullptr ||
          Excess(*broken, limits) < Excess(*nearest, limits)) {
        nearest = broken;
      }
      const FidelityCell* worse =
          cell->kl_mean >= other->kl_mean ? cell : other;
      const bool keeps = Keeps(*cell, limits) && Keeps(*other, limits);
      if (keeps &&
          (best == nullptr || worse->recompute_share < best->recompute_share)) {
        best = worse;
      }
    }
    RepairRow row;
    row.budget = budget;
    row.max_depth = depth;
    row.shared = kind_.shared;
    row.contexts = kind_.contexts;
    row.storage = kind_.storage;
    row.prefill = best == nullptr;
    const FidelityCell* shown = best != nullptr ? best : nearest;
    if (shown == nullptr) {
      row.reason = "nothing measured";
      return row;
    }
    if (best == nullptr) row.reason = Describe(*shown, limits);
    row.policy = shown->arm.policy;
    row.share = shown->arm.share;
    row.kl_mean = shown->kl_mean;
    row.top1 = shown->top1;
    row.ttft_ratio = shown->ttft_ratio;
    row.n = shown->n;
    return row;
  }

  int AnchoredBound(const BudgetLimits& limits) const {
    int bound = 0;
    for (const int depth : depths_) {
      const FidelityCell* pure = nullptr;
      for (const FidelityCell* cell : cells_) {
        if (cell->depth == depth &&
            cell->arm.policy == kv::RepairPolicy::kNone) {
          pure = cell;
        }
      }
      if (pure == nullptr || !Keeps(*pure, limits)) break;
      bound = depth;
    }
    return bound;
  }

 private:
  const FidelityCell* At(int depth, const StudyArm& arm) const {
    for (const FidelityCell* cell : cells_) {
      if (cell->depth == depth && cell->arm == arm) return cell;
    }
    return nullptr;
  }

  Kind kind_;
  std::vector<const FidelityCell*> cells_;
  std::set<int> depths_;
};

}  // namespace

Result<engine::RepairProfile> FitProfile(std::span<const FidelityCell> cells,
                                         const FitOptions& options) {
  engine::RepairProfile profile;
  profile.model = options.model;
  profile.made = options.made;
  profile.fingerprint = options.fingerprint;
  profile.compile_contexts = options.compile_contexts;
  int positions = 0;
  for (const FidelityCell& cell : cells) {
    profile.cells.push_back(CellToJson(cell));
    if (!cell.noise) continue;
    profile.noise_kl += cell.kl_mean * cell.positions;
    profile.noise_top1 += cell.top1 * cell.positions;
    positions += cell.positions;
  }
  const Fitter fitter(cells, {.contexts = options.compile_contexts});
  if (positions == 0 || fitter.depths().empty()) {
    return InvalidArgumentError("calibrate: no trials of blocks with " +
                                std::to_string(options.compile_contexts) +
                                " compile contexts and their noise floor");
  }
  profile.noise_kl /= positions;
  profile.noise_top1 /= positions;
  std::set<Kind> kinds;
  for (const FidelityCell& cell : cells) {
    if (Fitter::IsCandidate(cell)) kinds.insert(Kind::Of(cell.arm));
  }
  for (const Budget budget :
       {Budget::kStrict, Budget::kBalanced, Budget::kFast}) {
    const BudgetLimits limits = engine::LimitsOf(budget, profile.noise_kl);
    for (const Kind& kind : kinds) {
      const Fitter of_kind(cells, kind);
      int shallow = 0;
      for (const int depth : of_kind.depths()) {
        if (shallow == 0) shallow = depth;
        profile.rows.push_back(of_kind.RowFor(budget, limits, shallow, depth));
        shallow = depth;
      }
    }
  }
  profile.anchored_bound = fitter.AnchoredBound(
      engine::LimitsOf(Budget::kBalanced, profile.noise_kl));
  return profile;
}

}  // namespace nexus::calibrate
