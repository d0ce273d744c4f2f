// nexus bench scan: the SLB against other ways to find the nearest tools.
#include <cstdio>

#include "nexus/cli/bench_commands.h"
#include "nexus/cli/exit_code.h"
#include "nexus/cli/terminal.h"
#include "nexus/route/scan_bench.h"
#include "nexus/simd/int8_scan.h"

namespace nexus::cli {
namespace {

using route::ScanCase;

Json OrNull(const std::optional<double>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

std::string Microseconds(const std::optional<double>& us) {
  if (!us.has_value()) return "-";
  char text[32];
  std::snprintf(text, sizeof text, *us < 100 ? "%.1f" : "%.0f", *us);
  return text;
}

std::string Percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

Json CaseToJson(const ScanCase& one) {
  return {{"tools", one.tools},
          {"dim", one.dim},
          {"nexus_us", one.nexus_us},
          {"one_stage_us", one.one_stage_us},
          {"two_stage_us", one.two_stage_us},
          {"plain_us", one.plain_us},
          {"faiss_flat_us", OrNull(one.faiss_flat_us)},
          {"faiss_sq8_us", OrNull(one.faiss_sq8_us)},
          {"usearch_us", nullptr},  // its sources don't build here yet
          {"recall_at_10", one.recall},
          {"recall_at_10_one_stage", one.recall_one_stage},
          {"bytes", one.bytes}};
}

int RunScan(const GlobalOptions& globals, route::ScanBenchOptions options) {
  ProgressLine line("bench scan");
  options.progress = [&](double share, const std::string& step) {
    line.Update(share, step);
  };
  const auto cases = route::RunScanBench(options);
  line.Done();
  if (!cases.ok()) return Fail(cases.status());
  if (globals.json) {
    Json rows = Json::array();
    for (const ScanCase& one : *cases) rows.push_back(CaseToJson(one));
    PrintJson({{"target", simd::Int8ScanTargetName()},
               {"queries", options.queries},
               {"rounds", options.rounds},
               {"cases", std::move(rows)}});
    return kExitOk;
  }
  Table table({"tools", "dim", "nexus", "one stage", "two stages", "plain",
               "FAISS flat", "FAISS SQ8", "recall@10", "memory"});
  for (const ScanCase& one : *cases) {
    table.AddRow({FormatCount(one.tools), std::to_string(one.dim),
                  Microseconds(one.nexus_us), Microseconds(one.one_stage_us),
                  Microseconds(one.two_stage_us), Microseconds(one.plain_us),
                  Microseconds(one.faiss_flat_us),
                  Microseconds(one.faiss_sq8_us), Percent(one.recall),
                  FormatBytes(one.bytes)});
  }
  std::printf("Microseconds a query, best 10 included, one thread, %s\n\n%s",
              simd::Int8ScanTargetName().c_str(), table.Render().c_str());
  if (!cases->empty() && !cases->front().faiss_flat_us.has_value()) {
    std::printf(
        "\nFAISS isn't in this build: configure with -DNEXUS_BENCH_FAISS=ON "
        "(package libfaiss-dev)\n");
  }
  return kExitOk;
}

}  // namespace

void AddBenchScan(CLI::App* bench, Action* action) {
  auto globals = std::make_shared<GlobalOptions>();
  auto options = std::make_shared<route::ScanBenchOptions>();
  CLI::App* command = bench->add_subcommand(
      "scan", "Nearest of 250 to 100,000 tools: the SLB, a plain loop, FAISS");
  command->add_option("--tools", options->tools, "Sizes of the registry")
      ->delimiter(',')
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  command->add_option("--dims", options->dims, "Dimensions of an embedding")
      ->delimiter(',')
      ->check(CLI::Range(1, 8192))
      ->capture_default_str();
  command->add_option("--queries", options->queries, "Queries a case")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
  command
      ->add_option("--rounds", options->rounds,
                   "Times that each query is asked of each arm")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  AddJsonFlag(command, globals.get());
  command->callback(
      [=] { *action = [=] { return RunScan(*globals, *options); }; });
}

}  // namespace nexus::cli
