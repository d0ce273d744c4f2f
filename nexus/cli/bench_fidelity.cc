// nexus bench fidelity: KL and top-1 of spliced contexts against full prefill.
#include <charconv>
#include <cstdio>

#include "nexus/calibrate/fidelity_cells.h"
#include "nexus/calibrate/fidelity_plots.h"
#include "nexus/calibrate/fidelity_study.h"
#include "nexus/cli/bench_commands.h"
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

// A percentage between 0 and 100, both excluded. Not `> 100`: NaN would pass.
bool ParsePercent(const std::string& text, double* percent) {
  char* end = nullptr;
  *percent = std::strtod(text.c_str(), &end);
  return !text.empty() && *end == '\0' && *percent > 0 && *percent < 100;
}

// "sensitivity:15", "sensitivity:15/1", "none@50" -> policy, share, shortest
// run, shared history. `none` and `full` have no share.
Result<StudyArm> ParseArm(const std::string& text) {
  std::string whole = text.substr(0, text.find('@'));
  const bool has_history = whole.size() < text.size();
  const std::string history = has_history ? text.substr(whole.size() + 1) : "";
  int min_run = 0;
  bool run_fits = true;
  if (const size_t slash = whole.find('/'); slash != std::string::npos) {
    const auto [end, error] = std::from_chars(
        whole.data() + slash + 1, whole.data() + whole.size(), min_run);
    run_fits = error == std::errc() && end == whole.data() + whole.size() &&
               min_run >= 1 && min_run <= 1024;
    whole.resize(slash);
  }
  const size_t colon = whole.find(':');
  const auto policy = kv::ParseRepairPolicy(whole.substr(0, colon));
  StudyArm arm;
  double percent = 0;
  double shared = 0;
  const bool share_fits = colon == std::string::npos ||
                          ParsePercent(whole.substr(colon + 1), &percent);
  const bool shared_fits =
      !has_history || (ParsePercent(history, &shared) &&
                       policy != kv::RepairPolicy::kSensitivity);
  const bool needs_share =
      policy.has_value() && *policy != kv::RepairPolicy::kNone;
  if (!policy.has_value() || *policy == kv::RepairPolicy::kFull ||
      needs_share != (colon != std::string::npos) || !share_fits ||
      !shared_fits || !run_fits) {
    return InvalidArgumentError(
        "--arms: '" + text +
        "' isn't an arm; expected none, or suffix, head, sensitivity, "
        "head-tail or deviation with a percentage between 0 and 100, as in "
        "sensitivity:15; /1 behind it decodes runs of one token and more; @50 "
        "behind one that isn't sensitivity takes the cells from the "
        "conversation when it had half of its tokens");
  }
  arm.policy = *policy;
  arm.share = percent / 100;
  arm.shared = shared / 100;
  arm.min_run = min_run;
  return arm;
}

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
      NEXUS_ASSIGN_OR_RETURN(StudyArm arm, ParseArm(text));
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

Json ResultJson(const engine::Engine& engine,
                const std::vector<Trial>& trials) {
  Json cells = Json::array();
  Json floors = Json::array();
  double noise_kl = 0;
  double noise_top1 = 0;
  int noise_positions = 0;
  for (const FidelityCell& cell : calibrate::GatherCells(trials)) {
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
  return {{"model", engine.model().info().name},
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
    PrintJson(ResultJson(**engine, trials));
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
