// nexus bench fidelity: KL and top-1 of spliced contexts against full prefill.
#include <cstdio>

#include "nexus/calibrate/fidelity_cells.h"
#include "nexus/calibrate/fidelity_plots.h"
#include "nexus/calibrate/fidelity_study.h"
#include "nexus/calibrate/study_arm.h"
#include "nexus/cli/bench_commands.h"
#include "nexus/cli/bench_json.h"
#include "nexus/cli/exit_code.h"
#include "nexus/cli/study_run.h"
#include "nexus/engine/compile_tools.h"

namespace nexus::cli {
namespace {

using calibrate::FidelityCell;
using calibrate::StudyArm;
using calibrate::StudyOptions;
using calibrate::Trial;

struct FidelityFlags {
  std::vector<int> depths = {256, 1024, 2048};
  std::vector<std::string> arms;
  std::vector<int> contexts = {engine::kDefaultCompileContexts};
  std::vector<std::string> storages = {"f16"};
  int tools = 8;
  int histories = 1;
  bool quick = false;
  bool report_only = false;
  std::string trials_file;
  std::string plot;
};

Result<StudyOptions> ToOptions(const FidelityFlags& flags) {
  StudyOptions options;
  options.depths = flags.depths;
  options.tools = flags.tools;
  options.histories_a_tool = flags.histories;
  std::vector<std::string> arms = flags.arms;
  if (arms.empty()) {
    arms = {"none",           "suffix:22",      "head:22",
            "sensitivity:15", "sensitivity:22", "deviation:22",
            "none@50",        "none@90",        "head:22@90"};
  }
  if (flags.quick) {
    options.depths = {256, 1024};
    options.tools = 3;
    if (flags.arms.empty()) arms = {"none", "sensitivity:15", "sensitivity:22"};
  }
  for (const int contexts : flags.contexts) {
    for (const std::string& text : arms) {
      NEXUS_ASSIGN_OR_RETURN(StudyArm arm, calibrate::ParseStudyArm(text));
      arm.contexts = contexts;
      for (const std::string& name : flags.storages) {
        const auto storage = kv::ParseBlockStorage(name);
        if (!storage.has_value()) {
          return InvalidArgumentError("--storage: '" + name + "'");
        }
        arm.storage = *storage;
        options.arms.push_back(arm);
      }
    }
  }
  return options;
}

void Print(const std::vector<Trial>& trials) {
  std::printf("%6s  %-20s %6s %5s  %-24s %8s %7s %7s %6s\n", "depth", "arm",
              "again", "runs", "KL mean [95 %]", "p99", "top-1", "TTFT", "n");
  for (const FidelityCell& cell : calibrate::GatherCells(trials)) {
    const std::string name = cell.noise ? "noise floor"
                                        : calibrate::ArmName(cell.arm) + " /" +
                                              std::to_string(cell.arm.contexts);
    char interval[64];
    std::snprintf(interval, sizeof interval, "%.4f [%.4f-%.4f]", cell.kl_mean,
                  cell.kl_low, cell.kl_high);
    char ratio[32] = "";
    if (!cell.noise) {
      std::snprintf(ratio, sizeof ratio, "%.1fx", cell.ttft_ratio);
    }
    std::printf("%6d  %-20s %5.0f%% %5.1f  %-24s %8.4f %6.1f%% %7s %6d\n",
                cell.depth, name.c_str(), 100 * cell.recompute_share, cell.runs,
                interval, cell.kl_p99, 100 * cell.top1, ratio, cell.n);
  }
  const calibrate::DriftCorrelation rho = calibrate::Correlate(trials);
  std::printf(
      "\nSpearman's rho with the true drift of a token: sensitivity %.3f, K "
      "variance %.3f (%d trials);\nwith the KL of a splice: unrepaired "
      "sensitivity %.3f, K variance %.3f (%d splices).\n",
      rho.token_sensitivity, rho.token_k_variance, rho.trials,
      rho.splice_sensitivity, rho.splice_k_variance, rho.splices);
}

int Run(const GlobalOptions& globals, const FidelityFlags& flags) {
  auto options = ToOptions(flags);
  if (!options.ok()) return Fail(options.status());
  auto engine = MakeEngine(globals);
  if (!engine.ok()) return Fail(engine.status());
  const auto studied = RunStudy(**engine, *options,
                                {.title = "bench fidelity",
                                 .trials_file = flags.trials_file,
                                 .report_only = flags.report_only});
  if (!studied.ok()) return Fail(studied.status());
  const std::vector<Trial>& trials = *studied;
  if (!flags.plot.empty()) {
    const Status drawn =
        WriteFileAtomically(FileSystem::Default(), flags.plot,
                            calibrate::PlotNegativeResults(
                                trials,
                                (*engine)->model().info().name + ", " +
                                    std::to_string(trials.size()) + " trials",
                                flags.contexts.back()));
    if (!drawn.ok()) return Fail(drawn);
  }
  if (globals.json) {
    PrintJson(FidelityJson((*engine)->model().info().name, trials));
  } else {
    Print(trials);
  }
  return kExitOk;
}

}  // namespace

void AddBenchFidelity(CLI::App* bench, Action* action) {
  auto globals = std::make_shared<GlobalOptions>();
  auto flags = std::make_shared<FidelityFlags>();
  CLI::App* command =
      bench->add_subcommand("fidelity",
                            "What a splice does to the answers: KL and top-1 "
                            "against full prefill, by "
                            "depth, repair policy and share");
  command
      ->add_option("--depths", flags->depths,
                   "Tokens of conversation before the schema")
      ->delimiter(',')
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command
      ->add_option("--arms", flags->arms,
                   "Policies with their share in percent, as in "
                   "none,sensitivity:15,head:22")
      ->delimiter(',');
  command
      ->add_option("--contexts", flags->contexts,
                   "Compile contexts behind the blocks; several are compared")
      ->delimiter(',')
      ->check(CLI::Range(1, static_cast<int>(compile::CompileTexts().size())))
      ->capture_default_str();
  command
      ->add_option("--storage", flags->storages,
                   "How the blocks' rows are stored: f16, q8, q8-k4; several "
                   "are compared")
      ->delimiter(',')
      ->check(CLI::IsMember({"f16", "q8", "q8-k4"}))
      ->capture_default_str();
  command->add_option("--tools", flags->tools, "Tools of the built-in set")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--histories", flags->histories,
                   "Kinds of conversation that each tool is tried behind")
      ->check(CLI::Range(1, 4))
      ->capture_default_str();
  command->add_flag("--report-only", flags->report_only,
                    "Measure nothing more: report what the trials hold");
  command->add_flag("--quick", flags->quick,
                    "Three tools, two depths, three arms: minutes");
  command
      ->add_option("--trials", flags->trials_file,
                   "Keep the trials here, and go on from what is there")
      ->type_name("FILE");
  command
      ->add_option("--plot", flags->plot,
                   "Draw pure splice over depth and both drift predictors")
      ->type_name("FILE.svg");
  AddModelFlags(command, globals.get());
  AddJsonFlag(command, globals.get());
  command->callback([=] { *action = [=] { return Run(*globals, *flags); }; });
}

}  // namespace nexus::cli
