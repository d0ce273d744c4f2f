#include "nexus/engine/composition.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <tuple>

namespace nexus::engine {
namespace {

// A share of 1,000 questions moves in steps of 0.001: sums of them must not
// break a limit by their rounding.
constexpr double kRounding = 1e-9;

Json ShareToJson(const ComposedShare& share) {
  return {{"prefill", share.prefill},
          {"splice", share.splice},
          {"difference_ci95",
           {share.difference_ci95.low, share.difference_ci95.high}},
          {"n", share.n}};
}

ComposedShare ShareFromJson(const Json& json) {
  ComposedShare share;
  share.prefill = json.at("prefill").get<double>();
  share.splice = json.at("splice").get<double>();
  const Json& interval = json.at("difference_ci95");
  share.difference_ci95 = {interval.at(0).get<double>(),
                           interval.at(1).get<double>()};
  share.n = json.at("n").get<int>();
  for (const double value : {share.prefill, share.splice}) {
    if (!(value >= 0 && value <= 1)) {
      throw std::runtime_error("a share of right answers outside 0..1");
    }
  }
  return share;
}

// What of `limits` the share breaks; empty: nothing.
std::string Broken(const ComposedShare& share, const char* what,
                   const CompositionLimits& limits) {
  char text[200];
  if (share.n < limits.n) {
    std::snprintf(text, sizeof text, "%s asked of %d questions, %d are needed",
                  what, share.n, limits.n);
    return text;
  }
  const double difference = share.difference();
  if (std::abs(difference) <= limits.difference + kRounding) return "";
  std::snprintf(
      text, sizeof text,
      "%s %.1f points %s prefill's [%+.1f to %+.1f] over %d "
      "questions, the limit is %.1f",
      what, 100 * std::abs(difference), difference < 0 ? "below" : "above",
      100 * share.difference_ci95.low, 100 * share.difference_ci95.high,
      share.n, 100 * limits.difference);
  return text;
}

std::string Tools(int count) {
  return std::to_string(count) + (count == 1 ? " tool" : " tools");
}

// Why this row doesn't do for the place; empty: it does.
std::string Refusal(const CompositionRow& row, const CompositionPlace& place) {
  if (!row.allowed) return row.reason;
  if (place.tokens > row.max_tokens) {
    return "measured up to " + std::to_string(row.max_tokens) +
           " tokens, this list ends at " + std::to_string(place.tokens);
  }
  const double limit = LimitsOf(place.budget, place.noise_kl).kl_mean;
  // The default budget's limits are those of the answers themselves.
  if (place.budget != kDefaultBudget && row.kl_mean > limit) {
    char text[120];
    std::snprintf(text, sizeof text, "KL %.4f, the %s budget allows %.4f",
                  row.kl_mean, std::string(BudgetName(place.budget)).c_str(),
                  limit);
    return text;
  }
  return "";
}

}  // namespace

void JudgeComposition(const CompositionLimits& limits, CompositionRow* row) {
  row->reason = Broken(row->tool_choice, "tool choice", limits);
  if (row->reason.empty()) {
    row->reason = Broken(row->args_exact, "exact arguments", limits);
  }
  row->allowed = row->reason.empty();
}

Json CompositionRowToJson(const CompositionRow& row) {
  Json json = {{"blocks", row.blocks},
               {"recipe", row.recipe},
               {"share", row.share},
               {"max_tokens", row.max_tokens},
               {"n", row.tool_choice.n},
               {"tool_choice", ShareToJson(row.tool_choice)},
               {"args_exact", ShareToJson(row.args_exact)},
               {"kl_mean", row.kl_mean},
               {"allowed", row.allowed}};
  if (!row.allowed) json["reason"] = row.reason;
  return json;
}

CompositionRow CompositionRowFromJson(const Json& json) {
  CompositionRow row;
  row.blocks = json.at("blocks").get<int>();
  row.recipe = json.at("recipe").get<std::string>();
  row.share = json.at("share").get<double>();
  row.max_tokens = json.at("max_tokens").get<int>();
  row.tool_choice = ShareFromJson(json.at("tool_choice"));
  row.args_exact = ShareFromJson(json.at("args_exact"));
  row.kl_mean = json.at("kl_mean").get<double>();
  if (row.blocks < 1 || row.recipe.empty() ||
      !(row.share >= 0 && row.share <= 1) || !(row.kl_mean >= 0)) {
    throw std::runtime_error(
        "a row of 'composition' with 'blocks' below 1, no 'recipe', a 'share' "
        "outside 0..1 or a 'kl_mean' below 0");
  }
  JudgeComposition({}, &row);
  if (!json.at("allowed").get<bool>() && row.allowed) {
    row.allowed = false;
    row.reason = json.at("reason").get<std::string>();
  }
  return row;
}

Result<const CompositionRow*> FindComposition(
    std::span<const CompositionRow> rows, const CompositionPlace& place) {
  int nearest = 0;
  int longest = 0;
  for (const CompositionRow& row : rows) {
    longest = std::max(longest, row.blocks);
    if (row.blocks >= place.tools) {
      nearest = nearest == 0 ? row.blocks : std::min(nearest, row.blocks);
    }
  }
  if (longest == 0) {
    return NotFoundError(
        "composed: blocks side by side aren't measured for this model");
  }
  if (nearest == 0) {
    return NotFoundError("composed: measured up to " + Tools(longest) +
                         ", this list has " + std::to_string(place.tools));
  }
  const auto cost = [](const CompositionRow& row) {
    return std::tuple(row.share, row.kl_mean);
  };
  const CompositionRow* best = nullptr;
  // What was repaired most is nearest to being allowed.
  const CompositionRow* refused = nullptr;
  for (const CompositionRow& row : rows) {
    if (row.blocks != nearest) continue;
    if (Refusal(row, place).empty()) {
      if (best == nullptr || cost(row) < cost(*best)) best = &row;
    } else if (refused == nullptr || cost(row) > cost(*refused)) {
      refused = &row;
    }
  }
  if (best != nullptr) return best;
  return UnimplementedError("composed: not for lists of " + Tools(nearest) +
                            ": " + Refusal(*refused, place));
}

}  // namespace nexus::engine
