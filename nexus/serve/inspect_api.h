// InspectApi: what the server is made of, as JSON for its page and for scripts:
// the model, the registry with what each tool costs, the store, the profile.
// docs/http_api.md describes it.
#ifndef NEXUS_SERVE_INSPECT_API_H_
#define NEXUS_SERVE_INSPECT_API_H_

#include <memory>
#include <string>
#include <vector>

#include "nexus/base/json.h"
#include "nexus/base/mutex.h"
#include "nexus/base/result.h"
#include "nexus/engine/engine.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::serve {

// {"store", "bytes", "max_bytes", "blocks": [...]}, as `nexus inspect --json`.
Result<Json> StoreJson(kv::BlockStore& store);

// Thread-safe. Engine and registry must outlive it.
class InspectApi {
 public:
  InspectApi(const engine::Engine* engine,
             const std::vector<schema::ToolSchema>* registry)
      : engine_(engine), registry_(registry) {}

  // Tokens of a tool's schema, of its signature, and whether the store has its
  // cells.
  Result<Json> Tools() const EXCLUDES(mutex_);
  Result<Json> Store() const;
  // {"profile": null, "reason"} where there is none.
  Json Profile() const;

 private:
  struct Cost {
    int schema_tokens = 0;
    int signature_tokens = 0;
    std::vector<kv::BlockKey> blocks;  // that would have its cells
  };
  Result<Cost> CostOf(const schema::ToolSchema& tool) const;

  const engine::Engine* const engine_;
  const std::vector<schema::ToolSchema>* const registry_;
  mutable Mutex mutex_;
  mutable std::vector<Cost> costs_ GUARDED_BY(mutex_);  // one a tool, made once
};

}  // namespace nexus::serve

#endif  // NEXUS_SERVE_INSPECT_API_H_
