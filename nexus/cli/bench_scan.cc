// nexus bench scan: the SLB against other ways to find the nearest tools.
#include <cstdio>

#include "nexus/cli/bench_commands.h"
#include "nexus/cli/exit_code.h"
#include "nexus/cli/terminal.h"
#include "nexus/route/scan_bench.h"
#include "nexus/simd/int8_scan.h"

namespace nexus::cli {
namespace {

using route::BaselineFigures;
using route::ScanCase;

Json OrNull(const std::optional<BaselineFigures>& baseline,
            double BaselineFigures::*figure) {
  return baseline.has_value() ? Json((*baseline).*figure) : Json(nullptr);
}

std::string Microseconds(double us) {
  char text[32];
  std::snprintf(text, sizeof text, us < 100 ? "%.1f" : "%.0f", us);
  return text;
}

std::string Percent(double share) {
  char text[16];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

// With its recall, which an index that isn't exact trades for time.
std::string Cell(const std::optional<BaselineFigures>& baseline) {
  if (!baseline.has_value()) return "-";
  return Microseconds(baseline->us) + " (" + Percent(baseline->recall) + ")";
}

Json CaseToJson(const ScanCase& one) {
  const auto us = &BaselineFigures::us;
  const auto recall = &BaselineFigures::recall;
  return {{"tools", one.tools},
          {"dim", one.dim},
          {"nexus_us", one.nexus_us},
          {"one_stage_us", one.one_stage_us},
          {"two_stage_us", one.two_stage_us},
          {"plain_us", one.plain_us},
          {"faiss_flat_us", OrNull(one.faiss_flat, us)},
          {"faiss_sq8_us", OrNull(one.faiss_sq8, us)},
          {"usearch_us", OrNull(one.usearch, us)},
          {"usearch_hnsw_us", OrNull(one.usearch_hnsw, us)},
          {"usearch_hnsw_build_ms",
           OrNull(one.usearch_hnsw, &BaselineFigures::build_ms)},
          {"recall_at_10", one.recall},
          {"recall_at_10_one_stage", one.recall_one_stage},
          {"recall_at_10_faiss_sq8", OrNull(one.faiss_sq8, recall)},
          {"recall_at_10_usearch", OrNull(one.usearch, recall)},
          {"recall_at_10_usearch_hnsw", OrNull(one.usearch_hnsw, recall)},
          {"bytes", one.bytes}};
}

void NoteMissing(const ScanCase& any) {
  if (!any.faiss_flat.has_value()) {
    std::printf(
        "\nFAISS isn't in this build: configure with -DNEXUS_BENCH_FAISS=ON "
        "(package libfaiss-dev)\n");
  }
  if (!any.usearch.has_value()) {
    std::printf(
        "\nUSearch isn't in this build: configure with "
        "-DNEXUS_BENCH_USEARCH=ON "
        "-DNEXUS_USEARCH_DIR=\"$(scripts/fetch_usearch)\"\n");
  }
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
               "FAISS flat", "FAISS SQ8", "USearch", "its HNSW", "recall@10",
               "memory"});
  for (const ScanCase& one : *cases) {
    table.AddRow({FormatCount(one.tools), std::to_string(one.dim),
                  Microseconds(one.nexus_us), Microseconds(one.one_stage_us),
                  Microseconds(one.two_stage_us), Microseconds(one.plain_us),
                  Cell(one.faiss_flat), Cell(one.faiss_sq8), Cell(one.usearch),
                  Cell(one.usearch_hnsw), Percent(one.recall),
                  FormatBytes(one.bytes)});
  }
  std::printf(
      "Microseconds a query, best 10 included (recall@10 in brackets), one "
      "thread, %s\n\n%s",
      simd::Int8ScanTargetName().c_str(), table.Render().c_str());
  if (!cases->empty()) NoteMissing(cases->front());
  return kExitOk;
}

}  // namespace

void AddBenchScan(CLI::App* bench, Action* action) {
  auto globals = std::make_shared<GlobalOptions>();
  auto options = std::make_shared<route::ScanBenchOptions>();
  CLI::App* command = bench->add_subcommand(
      "scan",
      "Nearest of 250 to 100,000 tools: the SLB, a plain loop, FAISS, USearch");
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
