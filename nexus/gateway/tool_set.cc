#include "nexus/gateway/tool_set.h"

#include <utility>

#include "nexus/gateway/exposed_name.h"

namespace nexus::gateway {

Status GatewayTool::Validate(const Json& arguments) const {
  MutexLock lock(mutex_);
  if (!is_prepared_) {
    is_prepared_ = true;
    auto validator = schema::ArgumentValidator::Create(schema_.parameters);
    if (validator.ok()) validator_ = std::move(validator).value();
  }
  return validator_ == nullptr ? Status() : validator_->Validate(arguments);
}

void ToolSet::Add(const UpstreamLists& lists, const AccessRules& rules) {
  for (size_t i = 0; i < lists.tools.size(); ++i) {
    const schema::ToolSchema& schema = lists.tools[i];
    if (std::string refusal = rules.Refusal(schema); !refusal.empty()) {
      refused_.emplace(schema::ToolId(schema), std::move(refusal));
      continue;
    }
    std::string name = ExposedName(schema.server, schema.name);
    for (int attempt = 1; by_exposed_name_.contains(name); ++attempt) {
      name = ExposedName(schema.server, schema.name, attempt);
    }
    Json raw = lists.raw_tools[i];
    raw["name"] = name;
    // A Go server's nulls, and what is missing, as ParseTool read it.
    raw["inputSchema"] = schema.parameters;
    tools_.push_back(
        std::make_unique<GatewayTool>(schema, std::move(raw), name));
    by_exposed_name_.emplace(std::move(name), tools_.back().get());
  }
}

Result<std::shared_ptr<const ToolSet>> ToolSet::Build(
    std::span<const std::shared_ptr<const UpstreamLists>> lists,
    llm::Embedder* embedder, const ToolSetOptions& options) {
  std::shared_ptr<ToolSet> set(new ToolSet());
  for (const auto& list : lists) set->Add(*list, options.rules);
  Sha256 digest;
  std::vector<schema::ToolSchema> schemas;
  for (const auto& tool : set->tools_) {
    digest.Update(DumpJson(tool->raw()));
    digest.Update("\n");
    schemas.push_back(tool->schema());
  }
  set->digest_ = digest.Finish();
  NEXUS_ASSIGN_OR_RETURN(
      auto index,
      route::ToolIndex::Build(
          std::move(schemas), embedder,
          {.cache_path =
               embedder == nullptr ? std::string() : options.embedding_cache}));
  set->warnings_ = index->warnings();
  set->router_ = std::make_unique<route::Router>(std::move(index), embedder,
                                                 options.router);
  return std::shared_ptr<const ToolSet>(std::move(set));
}

const GatewayTool* ToolSet::FindExposed(std::string_view exposed_name) const {
  const auto found = by_exposed_name_.find(exposed_name);
  return found == by_exposed_name_.end() ? nullptr : found->second;
}

std::string ToolSet::Nearest(std::string_view server,
                             std::string_view name) const {
  // Names are words run together; the index knows them apart.
  std::string words(name);
  for (char& c : words) c = c == '_' || c == '-' || c == '/' ? ' ' : c;
  route::RouteOptions options{.top_k = 3};
  if (!server.empty()) options.servers = {std::string(server)};
  const auto near = router_->Route(words, options);
  std::string text;
  if (near.ok()) {
    for (const route::Candidate& candidate : near->candidates) {
      text += (text.empty() ? "" : ", ") +
              tools_[static_cast<size_t>(candidate.tool)]->exposed_name();
    }
  }
  return text;
}

Result<const GatewayTool*> ToolSet::Resolve(std::string_view server,
                                            std::string_view name) const {
  std::string id(name);
  if (!server.empty()) id = std::string(server) + "/" + id;
  std::vector<const GatewayTool*> by_name;
  for (const auto& tool : tools_) {
    if (!server.empty() && tool->server() != server) continue;
    if (tool->exposed_name() == name) return tool.get();
    if (schema::ToolId(tool->schema()) == id) return tool.get();
    if (tool->schema().name == name) by_name.push_back(tool.get());
  }
  if (by_name.size() == 1) return by_name.front();
  if (by_name.size() > 1) {
    std::string names;
    for (const GatewayTool* tool : by_name) {
      names += (names.empty() ? "" : ", ") + tool->exposed_name();
    }
    return InvalidArgumentError("several servers have a tool '" +
                                std::string(name) + "'; name one of: " + names);
  }
  if (const auto refused = refused_.find(id); refused != refused_.end()) {
    return NotFoundError("tool '" + id +
                         "' may not be called: " + refused->second);
  }
  std::string message = "there is no tool '" + id + "'";
  if (const std::string near = Nearest(server, name); !near.empty()) {
    message += "; the nearest are: " + near;
  }
  return NotFoundError(message + ". Ask find_tool for what there is");
}

}  // namespace nexus::gateway
