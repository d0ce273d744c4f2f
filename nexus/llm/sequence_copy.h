// A sequence's cells from one context into another of the same model, by way of
// the engine's state blob (kv_blob.h).
#ifndef NEXUS_LLM_SEQUENCE_COPY_H_
#define NEXUS_LLM_SEQUENCE_COPY_H_

#include <cstdint>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/llm/context.h"

namespace nexus::llm {

// The blob of a sequence, `blob` resized to fit.
Status SaveSequence(const Context& context, SequenceId sequence,
                    std::vector<uint8_t>* blob);

// Replaces what `target` held by the cells of `sequence`: all that a further
// token needs, so of sliding-window layers no more than the window. Costs the
// cells' bytes a few times. On failure the target is empty: kUnimplemented for
// models whose state isn't plain KV cells, kResourceExhausted without room.
Status CopySequence(const Context& from, SequenceId sequence, Context* to,
                    SequenceId target);

}  // namespace nexus::llm

#endif  // NEXUS_LLM_SEQUENCE_COPY_H_
