#include "nexus/calibrate/composition_fit.h"

#include <map>
#include <utility>

#include "nexus/base/paired_stats.h"
#include "nexus/engine/compose_arm.h"
#include "nexus/engine/compose_summary.h"

namespace nexus::calibrate {
namespace {

using engine::ComposeStudy;
using engine::ComposeTrial;
using engine::ComposeTrials;

// Whether a session could lay blocks down like this arm on its own.
bool IsCandidate(const std::string& name) {
  const auto arm = engine::ParseComposeArm(name);
  return arm.ok() && !arm->is_exact && !arm->depends_on_question() &&
         arm->neighbours != engine::ListNeighbours::kGiven;
}

engine::CompositionRow RowOf(const engine::ComposeArmResult& arm, int blocks,
                             const ComposeTrial& any) {
  engine::CompositionRow row;
  row.blocks = blocks;
  row.recipe = any.recipe;
  row.share = any.share;
  row.max_tokens = arm.most_list_tokens;
  row.tool_choice = {.prefill = Share(arm.reference_choice_right, arm.n),
                     .splice = Share(arm.choice_right, arm.n),
                     .difference_ci95 = arm.difference_ci95,
                     .n = arm.n};
  row.args_exact = {.prefill = Share(arm.reference_args_right, arm.n_args),
                    .splice = Share(arm.args_right, arm.n_args),
                    .difference_ci95 = arm.args_difference_ci95,
                    .n = arm.n_args};
  row.kl_mean = arm.kl_mean;
  engine::JudgeComposition({}, &row);
  return row;
}

}  // namespace

Result<std::vector<ComposeStudy>> ReadComposeStudies(
    FileSystem& fs, std::span<const std::string> paths,
    const engine::Engine& engine) {
  const Json wanted = {
      {"model", ToHex(engine.fingerprint(kv::BlockKind::kSplice).Digest())},
      {"flash_attention", engine.attention().flash_attention}};
  std::vector<ComposeStudy> studies;
  for (const std::string& path : paths) {
    NEXUS_ASSIGN_OR_RETURN(const engine::ComposeLog log,
                           engine::ReadComposeLog(fs, path, wanted));
    NEXUS_ASSIGN_OR_RETURN(ComposeStudy study,
                           engine::ComposeStudyOf(log, path));
    studies.push_back(std::move(study));
  }
  return studies;
}

Result<std::vector<engine::CompositionRow>> FitComposition(
    std::span<const ComposeStudy> studies) {
  // Samples are part of a recipe: arms of one name are others with others.
  struct Joined {
    int max_tokens = 0;
    ComposeTrials trials;
  };
  std::map<std::pair<int, int>, Joined> joined;  // [blocks, samples]
  for (const ComposeStudy& study : studies) {
    const engine::ComposeSetting& setting = study.setting;
    const auto [found, is_new] =
        joined.try_emplace({setting.blocks, setting.samples});
    if (is_new) found->second.max_tokens = setting.max_tokens;
    if (found->second.max_tokens != setting.max_tokens) {
      return InvalidArgumentError(
          "calibrate: logs of lists of " + std::to_string(setting.blocks) +
          " tools with arguments of up to " +
          std::to_string(found->second.max_tokens) + " and " +
          std::to_string(setting.max_tokens) + " tokens; give one of them");
    }
    found->second.trials.insert(study.trials.begin(), study.trials.end());
  }
  std::vector<engine::CompositionRow> rows;
  for (const auto& [lists, study] : joined) {
    std::map<std::string, const ComposeTrial*> one_of;  // [arm]
    for (const auto& [key, trial] : study.trials) one_of[trial.arm] = &trial;
    const engine::ComposeBenchResult result =
        engine::SummarizeCompose(study.trials, lists.first, {});
    for (const engine::ComposeArmResult& arm : result.arms) {
      if (arm.n == 0 || !IsCandidate(arm.name)) continue;
      rows.push_back(RowOf(arm, lists.first, *one_of.at(arm.name)));
    }
  }
  return rows;
}

}  // namespace nexus::calibrate
