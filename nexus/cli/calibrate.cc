// nexus calibrate: measure how far splicing this model may go, and keep it as
// the profile that the engine follows.
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>

#include "nexus/base/clock.h"
#include "nexus/calibrate/composition_fit.h"
#include "nexus/calibrate/fidelity_cells.h"
#include "nexus/calibrate/fidelity_plots.h"
#include "nexus/calibrate/profile_fit.h"
#include "nexus/cli/bench_json.h"
#include "nexus/cli/commands.h"
#include "nexus/cli/exit_code.h"
#include "nexus/cli/study_run.h"
#include "nexus/cli/terminal.h"
#include "nexus/engine/compile_tools.h"

namespace nexus::cli {
namespace {

using calibrate::StudyArm;
using calibrate::StudyOptions;
using calibrate::Trial;
using engine::RepairProfile;
using engine::RepairRow;

// Blocks, question and call want room behind the deepest history.
constexpr int kRoomBehindHistory = 1024;

struct CalibrateFlags {
  std::vector<int> depths = {256, 1024, 2048, 4096};
  int tools = 8;
  int contexts = engine::kDefaultCompileContexts;
  bool quick = false;
  bool brief = false;
  bool report_only = false;
  std::string out;
  std::string trials_file;
  std::vector<std::string> also;
  std::vector<std::string> compose;  // logs of `bench compose`
};

StudyOptions ToOptions(const CalibrateFlags& flags, int context_train) {
  StudyOptions options;
  options.depths = flags.depths;
  options.tools = flags.tools;
  if (flags.quick) {
    options.depths = {256, 1024};
    options.tools = 4;
  }
  if (context_train > 0) {
    std::erase_if(options.depths, [&](int depth) {
      return depth + kRoomBehindHistory > context_train;
    });
  }
  using kv::RepairPolicy;
  // The oracle (deviation) is no candidate: it shows what the best ranking of
  // tokens would bring. Of the others none has got into a profile but these two
  // (profiles/README.md).
  const StudyArm arms[] = {
      {.policy = RepairPolicy::kNone},
      {.policy = RepairPolicy::kSuffix, .share = 0.22},
      {.policy = RepairPolicy::kHead, .share = 0.22},
      {.policy = RepairPolicy::kSensitivity, .share = 0.15},
      {.policy = RepairPolicy::kSensitivity, .share = 0.22},
      {.policy = RepairPolicy::kDeviation, .share = 0.22},
      {.policy = RepairPolicy::kNone, .shared = 0.5},
      {.policy = RepairPolicy::kNone, .shared = 0.9},
      {.policy = RepairPolicy::kHead, .share = 0.22, .shared = 0.5},
      {.policy = RepairPolicy::kHead, .share = 0.22, .shared = 0.9}};
  for (StudyArm arm : arms) {
    const bool for_profiles =
        arm.policy == RepairPolicy::kNone || arm.policy == RepairPolicy::kHead;
    if (flags.brief && !for_profiles) continue;
    arm.contexts = flags.contexts;
    options.arms.push_back(arm);
  }
  // Blocks that traffic has just begun to teach have fewer contexts.
  for (const int contexts : {1, 2}) {
    if (contexts < flags.contexts) {
      options.arms.push_back({.contexts = contexts});
    }
  }
  return options;
}

// "Qwen2.5 Coder 0.5B Instruct" -> "qwen2.5-coder-0.5b-instruct".
std::string Slug(const std::string& name) {
  std::string slug;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '.') {
      slug += static_cast<char>(std::tolower(byte));
    } else if (!slug.empty() && slug.back() != '-') {
      slug += '-';
    }
  }
  while (slug.ends_with('-')) slug.pop_back();
  return slug.empty() ? "model" : slug;
}

std::string FileStem(const engine::Engine& engine) {
  return Slug(engine.model().info().name) + "-" +
         engine.fingerprint(kv::BlockKind::kSplice).model_sha256.substr(0, 8);
}

// "4 contexts", "1 context q8", "shares 50 %".
std::string KindName(const RepairRow& row) {
  if (row.shared > 0) {
    return "shares " + std::to_string(std::lround(100 * row.shared)) + " %";
  }
  std::string name = std::to_string(row.contexts) +
                     (row.contexts == 1 ? " context" : " contexts");
  if (!row.storage.is_as_cached()) {
    name += " " + kv::BlockStorageName(row.storage);
  }
  return name;
}

void PrintRows(const RepairProfile& profile) {
  std::printf("%-9s %9s  %-16s %-18s %8s %7s %6s\n", "budget", "up to", "block",
              "repair", "KL mean", "top-1", "TTFT");
  for (const RepairRow& row : profile.rows) {
    std::string repair = "prefill";
    if (!row.prefill) {
      repair = std::string(kv::RepairPolicyName(row.policy));
      char share[16];
      std::snprintf(share, sizeof share, ", %.0f %%", 100 * row.share);
      if (row.share > 0) repair += share;
    }
    std::printf(
        "%-9s %9s  %-16s %-18s %8.4f %6.1f%% %5.1fx%s\n",
        std::string(engine::BudgetName(row.budget)).c_str(),
        FormatCount(row.max_depth).c_str(), KindName(row).c_str(),
        repair.c_str(), row.kl_mean, 100 * row.top1,
        row.prefill ? 1.0 : row.ttft_ratio,
        row.prefill ? "  (KL and top-1 of the best that was tried)" : "");
  }
}

void PrintComposition(const RepairProfile& profile) {
  for (const engine::CompositionRow& row : profile.composition) {
    std::printf("lists of %d tools, %s, %.0f %%: %s\n", row.blocks,
                row.recipe.c_str(), 100 * row.share,
                row.allowed ? "spliced side by side" : row.reason.c_str());
  }
}

Status WriteResults(const engine::Engine& engine, const CalibrateFlags& flags,
                    const std::vector<Trial>& trials,
                    std::vector<engine::CompositionRow> composition,
                    const std::string& profile_path, RepairProfile* profile) {
  FileSystem& fs = FileSystem::Default();
  const std::vector<calibrate::FidelityCell> cells =
      calibrate::GatherCells(trials);
  calibrate::FitOptions fit;
  fit.model = engine.model().info().name;
  fit.made = UtcDate();
  fit.fingerprint = engine.fingerprint(kv::BlockKind::kSplice);
  fit.compile_contexts = flags.contexts;
  NEXUS_ASSIGN_OR_RETURN(*profile, calibrate::FitProfile(cells, fit));
  profile->path = profile_path;
  profile->composition = std::move(composition);
  const size_t slash = profile_path.rfind('/');
  const std::string dir =
      slash == std::string::npos ? "." : profile_path.substr(0, slash);
  NEXUS_RETURN_IF_ERROR(fs.CreateDirs(dir));
  NEXUS_RETURN_IF_ERROR(WriteFileAtomically(
      fs, profile_path, DumpJson(engine::ProfileToJson(*profile), 1) + "\n"));
  std::string stem = profile_path;
  if (stem.ends_with(".json")) stem.resize(stem.size() - 5);
  const std::string title = profile->model + ", " + profile->made + ", " +
                            std::to_string(trials.size()) + " trials";
  NEXUS_RETURN_IF_ERROR(WriteFileAtomically(
      fs, stem + ".svg",
      calibrate::PlotFidelity(cells, title, flags.contexts)));
  return WriteFileAtomically(
      fs, stem + "-negative.svg",
      calibrate::PlotNegativeResults(trials, title, flags.contexts));
}

Result<std::vector<engine::CompositionRow>> ReadComposition(
    const engine::Engine& engine, const CalibrateFlags& flags) {
  NEXUS_ASSIGN_OR_RETURN(const auto studies,
                         calibrate::ReadComposeStudies(FileSystem::Default(),
                                                       flags.compose, engine));
  return calibrate::FitComposition(studies);
}

int Run(const GlobalOptions& globals, const CalibrateFlags& flags) {
  auto engine = MakeEngine(globals);
  if (!engine.ok()) return Fail(engine.status());
  const int context_train = (*engine)->model().info().context_train;
  const StudyOptions options = ToOptions(flags, context_train);
  if (options.depths.empty()) {
    return Fail(InvalidArgumentError(
        "calibrate: none of the depths asked for fits this model's context "
        "of " +
        std::to_string(context_train) + " tokens with " +
        std::to_string(kRoomBehindHistory) +
        " for schema, question and call; give smaller --depths"));
  }
  const std::string stem = FileStem(**engine);
  const std::string out = !flags.out.empty()
                              ? flags.out
                              : engine::UserProfileDir() + "/" + stem + ".json";
  std::string trials_file = flags.trials_file;
  if (trials_file.empty()) {
    const std::string dir = UserCacheDir() + "/calibrate";
    const Status made = FileSystem::Default().CreateDirs(dir);
    if (!made.ok()) return Fail(made);
    trials_file = dir + "/" + stem + ".trials.jsonl";
  }
  // Before hours are measured: a wrong file is told at once.
  auto composition = ReadComposition(**engine, flags);
  if (!composition.ok()) return Fail(composition.status());
  const auto trials = RunStudy(**engine, options,
                               {.title = "calibrate",
                                .trials_file = trials_file,
                                .report_only = flags.report_only,
                                .also = flags.also});
  if (!trials.ok()) return Fail(trials.status());
  RepairProfile profile;
  const Status written = WriteResults(**engine, flags, *trials,
                                      *std::move(composition), out, &profile);
  if (!written.ok()) return Fail(written);
  if (globals.json) {
    PrintJson(CalibrateJson(profile, out, trials_file));
    return kExitOk;
  }
  std::printf("%s: noise floor %.4f nats, top-1 %.1f %%\n\n",
              profile.model.c_str(), profile.noise_kl,
              100 * profile.noise_top1);
  PrintRows(profile);
  PrintComposition(profile);
  std::printf("\nprofile: %s (with plots beside it)\ntrials:  %s\n",
              out.c_str(), trials_file.c_str());
  return kExitOk;
}

}  // namespace

void AddCalibrateCommand(CLI::App* app, Action* action) {
  auto globals = std::make_shared<GlobalOptions>();
  auto flags = std::make_shared<CalibrateFlags>();
  CLI::App* command =
      app->add_subcommand("calibrate",
                          "Measure how much repair a splice of this model "
                          "needs, by depth, and keep "
                          "it as its profile");
  command->add_option("MODEL", globals->model,
                      "The same as --model, for convenience");
  command
      ->add_option("--depths", flags->depths,
                   "Tokens of conversation before the schema; those beyond the "
                   "model's context are left out")
      ->delimiter(',')
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command->add_option("--tools", flags->tools, "Tools of the built-in set")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--contexts", flags->contexts,
                   "Compile contexts of the blocks that it is for")
      ->check(CLI::Range(1, static_cast<int>(compile::CompileTexts().size())))
      ->capture_default_str();
  command->add_flag("--report-only", flags->report_only,
                    "Measure nothing more: report what the trials hold");
  command->add_flag("--quick", flags->quick,
                    "Four tools at two depths: minutes, wide intervals");
  command->add_flag("--brief", flags->brief,
                    "Leave out the repairs that the study compares but no "
                    "profile has taken: 60 % of the time, for more tools");
  command
      ->add_option("--out", flags->out,
                   "Where to write the profile [profiles in the user's cache]")
      ->type_name("FILE");
  command
      ->add_option("--trials", flags->trials_file,
                   "Where trials are kept to go on from [in the user's cache]")
      ->type_name("FILE");
  command
      ->add_option("--with", flags->also,
                   "Trials of other studies of this model, as `bench fidelity "
                   "--trials` keeps them: they join the profile, with any "
                   "kinds of block and repair that they tried")
      ->type_name("FILE");
  command
      ->add_option("--with-compose", flags->compose,
                   "Calls out of lists of this model, as `bench compose "
                   "--trials` keeps them: the profile says by them which lists "
                   "of blocks may be spliced side by side")
      ->type_name("FILE");
  AddModelFlags(command, globals.get());
  AddJsonFlag(command, globals.get());
  command->footer(
      "Ctrl-C keeps what is measured; the same command goes on from there.");
  command->callback([=] { *action = [=] { return Run(*globals, *flags); }; });
}

}  // namespace nexus::cli
