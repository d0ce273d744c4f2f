// `nexus ask --audit N`: one spliced answer in N is checked after it was given.
#ifndef NEXUS_CLI_ASK_AUDIT_H_
#define NEXUS_CLI_ASK_AUDIT_H_

#include <vector>

#include "nexus/base/json.h"
#include "nexus/engine/ask.h"
#include "nexus/engine/engine.h"

namespace nexus::cli {

// Whether this answer is the N-th spliced one since the last audit; the count
// is kept in the store. Never for `every` 0 or an answer that wasn't spliced.
bool IsAuditDue(const engine::Engine& engine, const engine::AskResult& result,
                int every);

// Compares with a full prefill; `generated` are the call's tokens. What is
// found is printed (`show`), returned, and kept for the block.
Json AuditAnswer(const engine::Engine& engine, const engine::AskResult& result,
                 const std::vector<llm::Token>& generated,
                 const engine::PrepareOptions& prepare, bool show);

}  // namespace nexus::cli

#endif  // NEXUS_CLI_ASK_AUDIT_H_
