#include "nexus/calibrate/profile_fit.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <set>
#include <vector>

namespace nexus::calibrate {
namespace {

using engine::Budget;
using engine::BudgetLimits;
using engine::RepairRow;

std::string Describe(const FidelityCell& cell) {
  char text[160];
  std::snprintf(text, sizeof text,
                "the nearest, %s at %.0f %%, leaves KL %.4f (up to %.4f by %d "
                "trials) and top-1 %.1f %%",
                std::string(kv::RepairPolicyName(cell.arm.policy)).c_str(),
                100 * cell.recompute_share, cell.kl_mean, cell.kl_high, cell.n,
                100 * cell.top1);
  return text;
}

class Fitter {
 public:
  // Of the cells of one kind of block: compiled behind `contexts` contexts, or,
  // with `shared` above 0, of the same conversation.
  Fitter(std::span<const FidelityCell> cells, int contexts, double shared)
      : shared_(shared) {
    for (const FidelityCell& cell : cells) {
      if (cell.noise || cell.arm.shared != shared ||
          !cell.arm.storage.is_as_cached() || cell.arm.min_run > 0 ||
          (shared == 0 && cell.arm.contexts != contexts) ||
          cell.arm.policy == kv::RepairPolicy::kDeviation) {
        continue;
      }
      cells_.push_back(&cell);
      depths_.insert(cell.depth);
    }
  }

  const std::set<int>& depths() const { return depths_; }

  RepairRow RowFor(Budget budget, const BudgetLimits& limits, int shallow,
                   int depth) const {
    const FidelityCell* best = nullptr;
    const FidelityCell* nearest = nullptr;
    for (const FidelityCell* cell : cells_) {
      if (cell->depth != depth) continue;
      if (budget == Budget::kFast &&
          cell->arm.policy != kv::RepairPolicy::kNone) {
        continue;
      }
      const FidelityCell* other = At(shallow, cell->arm);
      if (other == nullptr) continue;
      const FidelityCell* worse = Worse(cell, other);
      if (nearest == nullptr || worse->kl_mean < nearest->kl_mean) {
        nearest = worse;
      }
      const bool keeps = Keeps(*cell, limits) && Keeps(*other, limits);
      if (keeps &&
          (best == nullptr || worse->recompute_share < best->recompute_share)) {
        best = worse;
      }
    }
    RepairRow row;
    row.budget = budget;
    row.max_depth = depth;
    row.shared = shared_;
    row.prefill = best == nullptr;
    const FidelityCell* shown = best != nullptr ? best : nearest;
    if (shown == nullptr) {
      row.reason = "nothing measured";
      return row;
    }
    if (best == nullptr) row.reason = Describe(*shown);
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
  static bool Keeps(const FidelityCell& cell, const BudgetLimits& limits) {
    return cell.kl_high <= limits.kl_mean && cell.top1 >= limits.top1;
  }
  static const FidelityCell* Worse(const FidelityCell* a,
                                   const FidelityCell* b) {
    return a->kl_mean >= b->kl_mean ? a : b;
  }
  const FidelityCell* At(int depth, const StudyArm& arm) const {
    for (const FidelityCell* cell : cells_) {
      if (cell->depth == depth && cell->arm == arm) return cell;
    }
    return nullptr;
  }

  double shared_;
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
  const Fitter fitter(cells, options.compile_contexts, 0);
  if (positions == 0 || fitter.depths().empty()) {
    return InvalidArgumentError("calibrate: no trials of blocks with " +
                                std::to_string(options.compile_contexts) +
                                " compile contexts and their noise floor");
  }
  profile.noise_kl /= positions;
  profile.noise_top1 /= positions;
  std::set<double> shares;
  for (const FidelityCell& cell : cells) shares.insert(cell.arm.shared);
  for (const Budget budget :
       {Budget::kStrict, Budget::kBalanced, Budget::kFast}) {
    const BudgetLimits limits = engine::LimitsOf(budget, profile.noise_kl);
    for (const double shared : shares) {
      const Fitter kind(cells, options.compile_contexts, shared);
      int shallow = 0;
      for (const int depth : kind.depths()) {
        if (shallow == 0) shallow = depth;
        profile.rows.push_back(kind.RowFor(budget, limits, shallow, depth));
        shallow = depth;
      }
    }
  }
  profile.anchored_bound = fitter.AnchoredBound(
      engine::LimitsOf(Budget::kBalanced, profile.noise_kl));
  return profile;
}

}  // namespace nexus::calibrate
