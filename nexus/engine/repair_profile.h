// RepairProfile: what calibration found out about splicing one model: for each
// budget and depth the cheapest repair that keeps it, or that none does.
//
// The file is versioned JSON, made by `nexus calibrate`, and bound to the
// fingerprint that blocks are bound to: a profile of another model, template or
// engine says nothing here and is refused.
#ifndef NEXUS_ENGINE_REPAIR_PROFILE_H_
#define NEXUS_ENGINE_REPAIR_PROFILE_H_

#include <string>
#include <vector>

#include "nexus/base/file_system.h"
#include "nexus/base/json.h"
#include "nexus/base/result.h"
#include "nexus/engine/budget.h"
#include "nexus/engine/composition.h"
#include "nexus/kv/block_storage.h"
#include "nexus/kv/fingerprint.h"
#include "nexus/kv/recompute_plan.h"

namespace nexus::engine {

// One measured choice: for depths up to max_depth that no earlier row of the
// same kind of block (`shared`, `contexts`, `storage`) covers.
struct RepairRow {
  Budget budget = Budget::kBalanced;
  int blocks = 1;  // schemas side by side
  int max_depth = 0;
  // 0: of compiled blocks. Else of blocks of the same conversation that share
  // at least this much of the history (ConversationBlock::shared).
  double shared = 0;
  // Of compiled and learned blocks: what was measured had this many contexts
  // behind it. It holds for blocks of more, not of fewer. 0 with `shared`.
  int contexts = 0;
  kv::BlockStorage storage = {};  // how their rows are stored
  bool prefill = false;  // no repair kept the budget; `reason` has the best one
  std::string reason;
  kv::RepairPolicy policy = kv::RepairPolicy::kNone;
  double share = 0;
  // As measured with that choice.
  double kl_mean = 0;
  double top1 = 0;
  double ttft_ratio = 0;
  int n = 0;
};

struct RepairProfile {
  std::string model;  // for people
  kv::Fingerprint fingerprint;
  int compile_contexts = 0;  // of the blocks that it was made for
  double noise_kl = 0;
  double noise_top1 = 0;
  // P: up to here a splice needs no repair to be balanced; 0: nowhere.
  int anchored_bound = 0;
  std::vector<RepairRow> rows;  // by budget, blocks, max_depth
  // Lists of blocks side by side; empty: nothing was measured, none is spliced.
  std::vector<CompositionRow> composition;
  std::string made;            // date
  Json cells = Json::array();  // what the rows were chosen from, for plots
  std::string path;            // where it was read; not in the file

  // The row for this place: of those that ask for no more shared history, and
  // for no more contexts, than there are, the one that asks for most.
  // kNotFound: nothing was measured so deep, for so many blocks, or of such a
  // block; the caller prefills.
  struct Place {
    Budget budget = Budget::kBalanced;
    int depth = 0;
    int blocks = 1;
    double shared = 0;
    int contexts = 1;  // behind the block; of no account with `shared`
    kv::BlockStorage storage = {};
  };
  Result<const RepairRow*> Find(const Place& place) const;
};

Json ProfileToJson(const RepairProfile& profile);
// kCorruption: path and field. kIncompatible: a newer version, or another
// fingerprint (names the first difference) when `expected` is given.
Result<RepairProfile> ReadProfile(FileSystem& fs, const std::string& path,
                                  const kv::Fingerprint* expected);

// The first profile of this fingerprint in the folders, in order. kNotFound
// lists those that were passed over and why.
Result<RepairProfile> FindProfile(FileSystem& fs,
                                  const std::vector<std::string>& dirs,
                                  const kv::Fingerprint& expected);

// Where `nexus calibrate` puts its profiles.
std::string UserProfileDir();

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_REPAIR_PROFILE_H_
