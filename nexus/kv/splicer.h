// Splicer: lays a stored block into a running context, as a plan says.
//
// Runs go down left to right. A splice run hands KvAccess a row source that
// rotates keys from the mapped file straight into the staging buffer: each key
// is rounded once and no copy of the block is made. A recompute run decodes the
// block's own tokens, which then read what was spliced in front of them.
#ifndef NEXUS_KV_SPLICER_H_
#define NEXUS_KV_SPLICER_H_

#include <cstddef>
#include <string>

#include "nexus/base/result.h"
#include "nexus/kv/block_reader.h"
#include "nexus/kv/recompute_plan.h"
#include "nexus/llm/context.h"
#include "nexus/llm/kv_access.h"
#include "nexus/llm/rope_probe.h"

namespace nexus::kv {

struct SpliceOptions {
  llm::SequenceId sequence = 0;
  // Where the block's first token goes: the sequence's end. A variant goes only
  // where it was taken.
  llm::Position position = 0;
  // Keeps the logits after the block's last token. A plan that ends in a splice
  // run gives its last token up to a decode call.
  bool logits_for_last = false;
};

struct SpliceResult {
  double write_ms = 0;   // rotating and writing stored rows
  double repair_ms = 0;  // decoding
  int spliced_tokens = 0;
  int recomputed_tokens = 0;
  int runs = 0;
  size_t staging_bytes = 0;  // largest transient buffer, tables included
};

// kInvalidArgument: plan and block disagree, or the position isn't the
// sequence's end. kIncompatible: the block's layers aren't the context's, or a
// variant of another position. Errors of the context come through
// (kResourceExhausted, kCancelled). On every error the sequence is as it was
// before: the caller falls back to prefill.
Result<SpliceResult> Splice(llm::Context& context, llm::KvAccess& access,
                            const llm::RopeSpec& rope, const KvBlock& block,
                            const RecomputePlan& plan,
                            const SpliceOptions& options);

}  // namespace nexus::kv

#endif  // NEXUS_KV_SPLICER_H_
