// FidelityStudy: what a splice does to the model's answers, measured over
// tools, kinds of conversation, depths, and ways to repair.
//
// For each (depth, kind of history, tool): a full prefill with greedily
// generated arguments is the reference; the same prefill in other batch splits
// is the noise floor; then each arm splices the tool's block and is fed the
// reference's tokens. All run in one session one after the other, so times can
// be compared within a trial.
//
// A trial is one line of JSON; a study that was stopped goes on with the first
// trial that it hasn't.
#ifndef NEXUS_CALIBRATE_FIDELITY_STUDY_H_
#define NEXUS_CALIBRATE_FIDELITY_STUDY_H_

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "nexus/base/json.h"
#include "nexus/base/result.h"
#include "nexus/calibrate/calibration_set.h"
#include "nexus/engine/engine.h"
#include "nexus/kv/block_storage.h"
#include "nexus/kv/recompute_plan.h"

namespace nexus::calibrate {

struct StudyArm {
  kv::RepairPolicy policy = kv::RepairPolicy::kNone;
  double share = 0;  // of the block's tokens to re-decode
  int contexts = 4;  // compile contexts behind the block
  // Above 0: not a compiled block, but the schema's cells as they stood when
  // the conversation had this share of its tokens.
  double shared = 0;
  // How the block's rows are stored: the store's block, written anew.
  kv::BlockStorage storage = {};
  // Shortest run of tokens that is decoded again; 0: the planner's own.
  int min_run = 0;

  friend bool operator==(const StudyArm&, const StudyArm&) = default;
};

struct StudyOptions {
  std::vector<int> depths;
  std::vector<StudyArm> arms;
  int tools = 12;            // of the set, spread over their sizes
  int histories_a_tool = 1;  // kinds that each tool is tried behind, 1 to 4
  int generated_tokens = 40;
  std::function<void(int done, int total, const std::string& what)> progress;
  const std::atomic<bool>* cancel = nullptr;
};

// One arm (or the noise floor, `noise` set) in one trial.
struct TrialArm {
  bool noise = false;
  StudyArm arm;
  double recompute_share = 0;  // as it came out
  int runs = 0;                // decode calls of the repair
  double ttft_ms = 0;
  std::vector<double> kl;  // [position]
  std::vector<char> top1;  // [position]
  // Summed sensitivity of the tokens that were left as spliced: what the
  // profile predicts the drift of this splice to be.
  double predicted = 0;
};

struct Trial {
  int depth = 0;  // as asked for; the history may be a few tokens shorter
  int past_tokens = 0;
  std::string history;
  std::string tool;
  std::string question;
  int block_tokens = 0;
  double prefill_ms = 0;
  std::vector<TrialArm> arms;
  // Spearman's rho over the block's tokens between the true drift at this
  // place and: the sensitivity; the paper's per-head variance of K.
  double rho_sensitivity = 0;
  double rho_k_variance = 0;
  double k_variance = 0;  // its mean over the block

  // Identity within a study: depth, history, tool, question.
  std::string Key() const;
};

Json TrialToJson(const Trial& trial);
// kCorruption names `source` and the field.
Result<Trial> TrialFromJson(const Json& json, std::string_view source);

// Runs what `done` doesn't hold; each finished trial goes to `on_trial` at
// once. Blocks that the store lacks are compiled first. kUnimplemented when
// this model can't be spliced, kCancelled.
Status RunFidelityStudy(const engine::Engine& engine,
                        const StudyOptions& options,
                        const std::map<std::string, Trial>& done,
                        const std::function<Status(Trial)>& on_trial);

}  // namespace nexus::calibrate

#endif  // NEXUS_CALIBRATE_FIDELITY_STUDY_H_
