// The JSON of `nexus bench` and `nexus calibrate`: fields that scripts rely on
// (docs/cli.md), pinned by bench_json_test. No model is needed to make them.
#ifndef NEXUS_CLI_BENCH_JSON_H_
#define NEXUS_CLI_BENCH_JSON_H_

#include <span>
#include <string>

#include "nexus/base/json.h"
#include "nexus/calibrate/fidelity_study.h"
#include "nexus/engine/compose_summary.h"
#include "nexus/engine/determinism_bench.h"
#include "nexus/engine/repair_profile.h"

namespace nexus::cli {

Json FidelityJson(const std::string& model,
                  std::span<const calibrate::Trial> trials);

struct DeterminismSetting {
  std::string model;
  bool flash_attention = false;
  int threads = 0;
};
// One hash for all sessions, to compare machines, builds and settings by.
std::string OverallHash(const engine::DeterminismResult& result);
Json DeterminismJson(const DeterminismSetting& setting,
                     const engine::DeterminismResult& result);

struct ComposeView {
  std::string model;
  int samples = 0;
  std::string headline;  // the arm that the first fields are of; it is there
};
Json ComposeJson(const engine::ComposeBenchResult& result,
                 const ComposeView& view);

// `path` of the profile, `trials` where they are kept.
Json CalibrateJson(const engine::RepairProfile& profile,
                   const std::string& path, const std::string& trials);

}  // namespace nexus::cli

#endif  // NEXUS_CLI_BENCH_JSON_H_
