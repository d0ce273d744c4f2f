// Tier: how a schema's cells came into the context, cheapest first.
#ifndef NEXUS_ENGINE_TIER_H_
#define NEXUS_ENGINE_TIER_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nexus::engine {

enum class Tier {
  kAuto,          // as a wish: the cheapest that is safe
  kExactPrefix,   // the session's own cells
  kExactVariant,  // stored cells whose whole preceding token sequence is the
                  // same
  kSplice,        // a compiled block, re-rotated, perhaps repaired
  kPrefill,       // text
};

std::string_view TierName(Tier tier);
std::optional<Tier> ParseTier(std::string_view name);

// What Session::Prepare did. Token counts add up to the plan's.
struct TierReport {
  Tier tier = Tier::kPrefill;
  // Why no cheaper tier was taken, one line each; what `nexus` objects, logs
  // and metrics show.
  std::vector<std::string> reasons;
  int reused_tokens = 0;      // already in the context
  int restored_tokens = 0;    // exact stored cells
  int spliced_tokens = 0;     // from a block, not re-decoded
  int recomputed_tokens = 0;  // of the block, re-decoded after a splice
  int prefilled_tokens = 0;   // decoded as text
  int decode_runs = 0;        // of the repair
  double recompute_share = 0;
  std::string policy;    // of the repair that was followed; empty: no splice
  double lookup_ms = 0;  // store look-up, mapping, checksums
  double write_ms = 0;   // rotation and writing
  double repair_ms = 0;
  double decode_ms = 0;  // everything decoded as text
  size_t block_bytes = 0;
  // Share of the history that the block's cells already stood behind; 0: those
  // of a compiled or learned block.
  double shared_history = 0;
  int block_samples = 0;  // contexts behind the mean that was spliced
  size_t staging_bytes = 0;
  std::string block_file;
};

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_TIER_H_
