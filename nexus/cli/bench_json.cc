#include "nexus/cli/bench_json.h"

#include <algorithm>
#include <utility>

#include "nexus/base/hash.h"
#include "nexus/base/paired_stats.h"
#include "nexus/calibrate/fidelity_cells.h"

namespace nexus::cli {
namespace {

Json IntervalJson(const Interval& interval) {
  return Json::array({interval.low, interval.high});
}

Json ArmJson(const engine::ComposeArmResult& arm) {
  return {{"arm", arm.name},
          {"n", arm.n},
          {"n_args", arm.n_args},
          {"tool_choice", Share(arm.choice_right, arm.n)},
          {"tool_choice_ci95", IntervalJson(arm.choice_ci95)},
          {"args_exact", Share(arm.args_right, arm.n_args)},
          {"args_exact_ci95", IntervalJson(arm.args_ci95)},
          {"mcnemar_p", arm.mcnemar_p},
          {"ci95", IntervalJson(arm.difference_ci95)},
          {"args_mcnemar_p", arm.args_mcnemar_p},
          {"args_ci95", IntervalJson(arm.args_difference_ci95)},
          {"same_choice", Share(arm.same_choice, arm.n)},
          {"same", Share(arm.same, arm.n)},
          {"kl_mean", arm.kl_mean},
          {"kl_p99", arm.kl_p99},
          {"first_kl", arm.first_kl},
          {"first_top1", arm.first_top1},
          {"recompute_share", arm.recompute_share},
          {"list_ms", arm.list_ms}};
}

}  // namespace

Json FidelityJson(const std::string& model,
                  std::span<const calibrate::Trial> trials) {
  Json cells = Json::array();
  Json floors = Json::array();
  double noise_kl = 0;
  double noise_top1 = 0;
  int noise_positions = 0;
  for (const calibrate::FidelityCell& cell : calibrate::GatherCells(trials)) {
    if (!cell.noise) {
      cells.push_back(calibrate::CellToJson(cell));
      continue;
    }
    noise_kl += cell.kl_mean * cell.positions;
    noise_top1 += cell.top1 * cell.positions;
    noise_positions += cell.positions;
    floors.push_back({{"depth", cell.depth},
                      {"kl_mean", cell.kl_mean},
                      {"kl_max", cell.kl_max},
                      {"top1", cell.top1},
                      {"n", cell.n}});
  }
  const double positions = std::max(noise_positions, 1);
  const calibrate::DriftCorrelation rho = calibrate::Correlate(trials);
  return {{"model", model},
          {"noise_floor",
           {{"kl_mean", noise_kl / positions},
            {"top1", noise_top1 / positions},
            {"by_depth", std::move(floors)}}},
          {"cells", std::move(cells)},
          {"drift_spearman",
           {{"k_variance", rho.token_k_variance},
            {"sensitivity", rho.token_sensitivity},
            {"k_variance_by_splice", rho.splice_k_variance},
            {"sensitivity_by_splice", rho.splice_sensitivity},
            {"trials", rho.trials},
            {"splices", rho.splices}}}};
}

std::string OverallHash(const engine::DeterminismResult& result) {
  Sha256 all;
  for (const engine::DeterminismSession& session : result.sessions) {
    all.Update(session.alone.logits_sha256.data(),
               session.alone.logits_sha256.size());
  }
  return ToHex(all.Finish());
}

Json DeterminismJson(const DeterminismSetting& setting,
                     const engine::DeterminismResult& result) {
  Json sessions = Json::array();
  int64_t tokens = 0;
  for (const engine::DeterminismSession& session : result.sessions) {
    tokens += static_cast<int64_t>(session.alone.tokens.size());
    sessions.push_back({{"name", session.name},
                        {"tool", session.tool},
                        {"steps", session.steps},
                        {"tokens", session.alone.tokens},
                        {"logits_rows", session.alone.rows},
                        {"logits_sha256", ToHex(session.alone.logits_sha256)}});
  }
  return {{"model", setting.model},
          {"sessions", result.sessions.size()},
          {"tokens_equal", result.tokens_equal},
          {"logits_hash_equal", result.logits_hash_equal},
          {"orders", result.orders},
          {"concurrent_rounds", result.concurrent_rounds},
          {"generated_tokens", tokens},
          {"logits_rows_compared", result.rows_compared},
          {"logits_sha256", OverallHash(result)},
          {"flash_attention", setting.flash_attention},
          {"threads", setting.threads},
          {"differences", result.differences},
          {"shared_context",
           {{"logits_hash_equal", result.shared_context.logits_hash_equal},
            {"largest_difference", result.shared_context.largest_difference}}},
          {"by_session", std::move(sessions)}};
}

Json ComposeJson(const engine::ComposeBenchResult& result,
                 const ComposeView& view) {
  const engine::ComposeArmResult& headline =
      *std::find_if(result.arms.begin(), result.arms.end(),
                    [&](const auto& arm) { return arm.name == view.headline; });
  Json arms = Json::array();
  for (const engine::ComposeArmResult& arm : result.arms) {
    arms.push_back(ArmJson(arm));
  }
  // Of the questions that both were asked.
  return {{"model", view.model},
          {"blocks", result.blocks},
          {"n", headline.n},
          {"lists", result.lists},
          {"list_tokens", result.list_tokens},
          {"samples", view.samples},
          {"headline", headline.name},
          {"tool_choice",
           {{"prefill", Share(headline.reference_choice_right, headline.n)},
            {"splice", Share(headline.choice_right, headline.n)}}},
          {"args_exact",
           {{"prefill", Share(headline.reference_args_right, headline.n_args)},
            {"splice", Share(headline.args_right, headline.n_args)}}},
          {"mcnemar_p", headline.mcnemar_p},
          {"ci95", IntervalJson(headline.difference_ci95)},
          {"kl_mean", headline.kl_mean},
          {"first_kl", headline.first_kl},
          {"same", Share(headline.same, headline.n)},
          {"prefill_list_ms", result.reference.list_ms},
          {"arms", std::move(arms)},
          {"notes", result.notes}};
}

Json CalibrateJson(const engine::RepairProfile& profile,
                   const std::string& path, const std::string& trials) {
  Json json = engine::ProfileToJson(profile);
  json.erase("schema_version");
  json["profile"] = path;
  json["trials"] = trials;
  return json;
}

}  // namespace nexus::cli
