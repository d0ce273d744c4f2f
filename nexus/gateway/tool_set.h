// ToolSet: all tools that the gateway shows at one moment, with their names,
// their validators and their search index. Built anew when a server's list
// changes; who still uses an old one may go on.
#ifndef NEXUS_GATEWAY_TOOL_SET_H_
#define NEXUS_GATEWAY_TOOL_SET_H_

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/hash.h"
#include "nexus/base/json.h"
#include "nexus/base/mutex.h"
#include "nexus/base/result.h"
#include "nexus/gateway/access_rules.h"
#include "nexus/gateway/upstream.h"
#include "nexus/route/router.h"
#include "nexus/schema/argument_validator.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::gateway {

// Thread-safe.
class GatewayTool {
 public:
  GatewayTool(schema::ToolSchema schema, Json raw, std::string exposed_name)
      : schema_(std::move(schema)),
        raw_(std::move(raw)),
        exposed_name_(std::move(exposed_name)) {}

  const schema::ToolSchema& schema() const { return schema_; }
  const std::string& server() const { return schema_.server; }
  // As its server wrote it, but for the name.
  const Json& raw() const { return raw_; }
  const std::string& exposed_name() const { return exposed_name_; }

  // Against the full schema. A schema that can't be used is the server's
  // matter: then everything is fine here.
  Status Validate(const Json& arguments) const EXCLUDES(mutex_);

 private:
  const schema::ToolSchema schema_;
  const Json raw_;
  const std::string exposed_name_;
  mutable Mutex mutex_;
  mutable bool is_prepared_ GUARDED_BY(mutex_) = false;
  mutable std::unique_ptr<schema::ArgumentValidator> validator_
      GUARDED_BY(mutex_);
};

struct ToolSetOptions {
  AccessRules rules;
  route::RouterOptions router;
  // Embeddings by the hash of their text; empty: none are kept.
  std::string embedding_cache;
};

// Thread-safe: everything is const.
class ToolSet {
 public:
  // `lists` in the order of the configuration. `embedder` null: words only; it
  // must outlive the set.
  static Result<std::shared_ptr<const ToolSet>> Build(
      std::span<const std::shared_ptr<const UpstreamLists>> lists,
      llm::Embedder* embedder, const ToolSetOptions& options);

  const std::vector<std::unique_ptr<GatewayTool>>& tools() const {
    return tools_;
  }
  // Of names, order and all that a client sees.
  const Sha256Digest& digest() const { return digest_; }
  // The decision's tool numbers are places in tools().
  const route::Router& router() const { return *router_; }
  const std::vector<std::string>& warnings() const { return warnings_; }

  // Null when no tool has this name.
  const GatewayTool* FindExposed(std::string_view exposed_name) const;
  // `name`: a tool of `server`; without a server an exposed name,
  // "server/name", or the name of one tool only. The error says what there is
  // instead, and is for a model to read.
  Result<const GatewayTool*> Resolve(std::string_view server,
                                     std::string_view name) const;

 private:
  ToolSet() = default;
  void Add(const UpstreamLists& lists, const AccessRules& rules);
  std::string Nearest(std::string_view server, std::string_view name) const;

  std::vector<std::unique_ptr<GatewayTool>> tools_;
  std::map<std::string, const GatewayTool*, std::less<>> by_exposed_name_;
  std::map<std::string, std::string> refused_;  // "server/name" -> why
  std::unique_ptr<route::Router> router_;
  Sha256Digest digest_{};
  std::vector<std::string> warnings_;
};

}  // namespace nexus::gateway

#endif  // NEXUS_GATEWAY_TOOL_SET_H_
