// `nexus ask --audit N`: one spliced answer in N is checked after it was given.
#ifndef NEXUS_CLI_ASK_AUDIT_H_
#define NEXUS_CLI_ASK_AUDIT_H_

#include "nexus/base/json.h"
#include "nexus/engine/audit.h"
#include "nexus/engine/engine.h"

namespace nexus::cli {

// Compares with a full prefill. What is found is printed (`show`), returned,
// and kept for the block.
Json AuditAnswer(const engine::Engine& engine,
                 const engine::AuditRequest& request, bool show);

}  // namespace nexus::cli

#endif  // NEXUS_CLI_ASK_AUDIT_H_
