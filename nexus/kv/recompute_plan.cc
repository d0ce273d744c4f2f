#include "nexus/kv/recompute_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

namespace nexus::kv {
namespace {

constexpr std::array<std::pair<RepairPolicy, std::string_view>, 7>
    kPolicyNames = {{
        {RepairPolicy::kNone, "none"},
        {RepairPolicy::kSuffix, "suffix"},
        {RepairPolicy::kHead, "head"},
        {RepairPolicy::kSensitivity, "sensitivity"},
        {RepairPolicy::kHeadTail, "head-tail"},
        {RepairPolicy::kDeviation, "deviation"},
        {RepairPolicy::kFull, "full"},
    }};

Status CheckRanking(std::string_view name, std::span<const float> ranking,
                    int token_count) {
  if (ranking.empty()) return Status::Ok();
  if (ranking.size() != static_cast<size_t>(token_count)) {
    return InvalidArgumentError("recompute plan: " + std::string(name) +
                                " of " + std::to_string(ranking.size()) +
                                " tokens, block has " +
                                std::to_string(token_count));
  }
  for (const float value : ranking) {
    if (!std::isfinite(value) || value < 0) {
      return InvalidArgumentError("recompute plan: " + std::string(name) +
                                  " is negative or not a number");
    }
  }
  return Status::Ok();
}

Status Check(const PlanRequest& request) {
  if (request.token_count < 0 || request.depth < 0 || request.merge_gap < 0 ||
      request.min_run < 1) {
    return InvalidArgumentError(
        "recompute plan: negative token count, depth or merge gap, or minimum "
        "run below 1");
  }
  // Not `share > 1`: that lets NaN pass.
  if (!(request.share <= 1.0)) {
    return InvalidArgumentError("recompute plan: share " +
                                std::to_string(request.share) +
                                " is not between 0 and 1");
  }
  if (request.full_depth < request.anchored_bound) {
    return InvalidArgumentError("recompute plan: full depth " +
                                std::to_string(request.full_depth) +
                                " is below the anchored bound " +
                                std::to_string(request.anchored_bound));
  }
  if (request.policy == RepairPolicy::kDeviation && request.deviation.empty() &&
      request.token_count > 0) {
    return InvalidArgumentError(
        "recompute plan: policy deviation needs a measured deviation");
  }
  NEXUS_RETURN_IF_ERROR(
      CheckRanking("sensitivity", request.sensitivity, request.token_count));
  return CheckRanking("deviation", request.deviation, request.token_count);
}

// Picks runs of the highest ranking tokens, exactly `budget` tokens in all.
//
// Greedy: tokens come in falling rank. A token far from every run opens
// one of min_run tokens, placed where the profile is highest; a token within
// merge_gap of a run joins it, with the tokens between. What no longer fits is
// passed over, and since a run's neighbours always fit, the budget is used to
// the last token.
class RankedPicker {
 public:
  RankedPicker(const PlanRequest& request, std::span<const float> ranking)
      : request_(request),
        ranking_(ranking),
        picked_(static_cast<size_t>(request.token_count), 0),
        order_(picked_.size()) {
    std::iota(order_.begin(), order_.end(), 0);
    // Ties go to the earlier token: later ones read it.
    std::stable_sort(order_.begin(), order_.end(),
                     [&](int a, int b) { return RankOf(a) > RankOf(b); });
  }

  std::vector<char> Pick(int budget) {
    int left = budget;
    // Below min_run the one run gets what there is.
    const int run = std::min(request_.min_run, budget);
    // A token passed over may neighbour a run that opened later.
    for (int before = -1; left > 0 && before != left;) {
      before = left;
      for (const int token : order_) {
        if (left == 0) break;
        if (IsPicked(token)) continue;
        const auto [begin, end] = RunFor(token, run);
        if (!Take(begin, end, &left)) continue;
        // A gap this short costs less than the call that it saves.
        for (int gap = 1; gap <= request_.merge_gap; ++gap) {
          const int before_gap = begin - gap - 1;
          const int after_gap = end + gap;
          if (before_gap >= 0 && IsPicked(before_gap)) {
            Take(before_gap, begin, &left);
          }
          if (after_gap < request_.token_count && IsPicked(after_gap)) {
            Take(end, after_gap, &left);
          }
        }
      }
    }
    return std::move(picked_);
  }

 private:
  float RankOf(int token) const { return ranking_[static_cast<size_t>(token)]; }
  // Picks all of [begin, end), or nothing when it costs more than `left`.
  bool Take(int begin, int end, int* left) {
    const auto cost = static_cast<int>(
        std::count(picked_.begin() + begin, picked_.begin() + end, 0));
    if (cost > *left) return false;
    std::fill(picked_.begin() + begin, picked_.begin() + end, 1);
    *left -= cost;
    return true;
  }

  bool IsPicked(int token) const {
    return picked_[static_cast<size_t>(token)] != 0;
  }

  // The range to pick for an unpicked token: up to the nearest run when one is
  // close, else the best window of `run` tokens around it.
  std::pair<int, int> RunFor(int token, int run) const {
    for (int distance = 1; distance <= request_.merge_gap + 1; ++distance) {
      if (token - distance >= 0 && IsPicked(token - distance)) {
        return {token - distance, token + 1};
      }
      if (token + distance < request_.token_count &&
          IsPicked(token + distance)) {
        return {token, token + distance + 1};
      }
    }
    int best = std::max(0, token - run + 1);
    float best_sum = -1;
    const int last = std::min(token, request_.token_count - run);
    for (int begin = best; begin <= last; ++begin) {
      float sum = 0;
      for (int i = begin; i < begin + run; ++i) {
        if (!IsPicked(i)) sum += RankOf(i);
      }
      if (sum > best_sum) {
        best_sum = sum;
        best = begin;
      }
    }
    return {best, best + run};
  }

  const PlanRequest& request_;
  std::span<const float> ranking_;
  std::vector<char> picked_;  // [token] 1: recompute
  std::vector<int> order_;    // tokens by falling rank
};

// [token] 1: recompute. Exactly `budget` ones.
std::vector<char> PickTokens(const PlanRequest& request, RepairPolicy policy,
                             int budget) {
  if (policy == RepairPolicy::kSensitivity ||
      policy == RepairPolicy::kDeviation) {
    return RankedPicker(request, policy == RepairPolicy::kSensitivity
                                     ? request.sensitivity
                                     : request.deviation)
        .Pick(budget);
  }
  std::vector<char> picked(static_cast<size_t>(request.token_count), 0);
  // Two parts to the head, one to the tail: as 20 % + 10 % in the fidelity
  // study.
  int head = 0;
  if (policy == RepairPolicy::kHead || policy == RepairPolicy::kFull) {
    head = budget;
  } else if (policy == RepairPolicy::kHeadTail) {
    head = budget - budget / 3;
  }
  std::fill_n(picked.begin(), head, 1);
  std::fill_n(picked.rbegin(), budget - head, 1);
  return picked;
}

}  // namespace

std::string_view RepairPolicyName(RepairPolicy policy) {
  for (const auto& [value, name] : kPolicyNames) {
    if (value == policy) return name;
  }
  return "unknown";
}

std::optional<RepairPolicy> ParseRepairPolicy(std::string_view name) {
  for (const auto& [value, known] : kPolicyNames) {
    if (known == name) return value;
  }
  return std::nullopt;
}

double CurveShare(int depth, int anchored_bound, int full_depth) {
  if (depth <= anchored_bound) return 0.0;
  if (depth >= full_depth) return 1.0;
  return static_cast<double>(depth - anchored_bound) /
         static_cast<double>(full_depth - anchored_bound);
}

Result<RecomputePlan> PlanRecompute(const PlanRequest& request) {
  NEXUS_RETURN_IF_ERROR(Check(request));
  RecomputePlan plan;
  plan.policy = request.policy;
  if (plan.policy == RepairPolicy::kSensitivity &&
      request.sensitivity.empty()) {
    plan.policy = RepairPolicy::kHeadTail;
  }
  double share = request.share;
  if (share < 0) {
    share =
        CurveShare(request.depth, request.anchored_bound, request.full_depth);
  }
  if (plan.policy == RepairPolicy::kNone) share = 0.0;
  if (plan.policy == RepairPolicy::kFull) share = 1.0;
  // The epsilon keeps 0.3 * 10 from becoming 2.
  constexpr double kEpsilon = 1e-9;
  const int budget =
      std::min(request.token_count,
               static_cast<int>(share * request.token_count + kEpsilon));
  const std::vector<char> picked = PickTokens(request, plan.policy, budget);
  for (int begin = 0; begin < request.token_count;) {
    const char mark = picked[static_cast<size_t>(begin)];
    int end = begin + 1;
    while (end < request.token_count &&
           picked[static_cast<size_t>(end)] == mark) {
      ++end;
    }
    const RunKind kind = mark != 0 ? RunKind::kRecompute : RunKind::kSplice;
    plan.runs.push_back({kind, begin, end});
    if (kind == RunKind::kRecompute) {
      plan.recomputed_tokens += end - begin;
      ++plan.decode_calls;
    }
    begin = end;
  }
  if (request.token_count > 0) {
    plan.share = static_cast<double>(plan.recomputed_tokens) /
                 static_cast<double>(request.token_count);
  }
  return plan;
}

}  // namespace nexus::kv
