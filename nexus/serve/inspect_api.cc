#include "nexus/serve/inspect_api.h"

#include <algorithm>
#include <utility>

#include "nexus/compile/compile_contexts.h"
#include "nexus/kv/block_format.h"
#include "nexus/schema/ir_signature.h"

namespace nexus::serve {

Result<Json> StoreJson(kv::BlockStore& store) {
  NEXUS_ASSIGN_OR_RETURN(const std::vector<kv::BlockInfo> blocks, store.List());
  Json list = Json::array();
  for (const kv::BlockInfo& info : blocks) {
    list.push_back({{"file", info.file_name},
                    {"tool", info.tool_name},
                    {"kind", std::string(kv::BlockKindName(info.kind))},
                    {"tokens", info.token_count},
                    {"samples", info.context_count},
                    {"contexts", info.context_count},
                    {"generation", info.generation},
                    {"bytes", info.bytes},
                    {"uses", info.hits}});
  }
  return Json{{"store", store.dir()},
              {"bytes", store.TotalBytes()},
              {"max_bytes", store.max_bytes()},
              {"blocks", std::move(list)}};
}

Result<InspectApi::Cost> InspectApi::CostOf(
    const schema::ToolSchema& tool) const {
  Cost cost;
  NEXUS_ASSIGN_OR_RETURN(const auto listed,
                         engine_->planner().ListToolTokens(tool));
  cost.schema_tokens = static_cast<int>(listed.size());
  NEXUS_ASSIGN_OR_RETURN(const auto signature,
                         engine_->model().Tokenize(schema::IrSignature(tool)));
  cost.signature_tokens = static_cast<int>(signature.size());
  NEXUS_ASSIGN_OR_RETURN(const auto block,
                         engine_->planner().BlockTokens(
                             {&tool, 1}, engine::ArgumentMode::kSchema));
  cost.blocks.push_back(engine_->TrafficKey(block));
  for (size_t i = 1; i <= compile::CompileTexts().size(); ++i) {
    cost.blocks.push_back(engine_->SpliceKey(block, static_cast<int>(i)));
  }
  return cost;
}

Result<Json> InspectApi::Tools() const {
  MutexLock lock(mutex_);
  for (size_t i = costs_.size(); i < registry_->size(); ++i) {
    NEXUS_ASSIGN_OR_RETURN(Cost cost, CostOf((*registry_)[i]));
    costs_.push_back(std::move(cost));
  }
  kv::BlockStore* store = engine_->store();
  Json tools = Json::array();
  int total = 0;
  for (size_t i = 0; i < registry_->size(); ++i) {
    const schema::ToolSchema& tool = (*registry_)[i];
    const Cost& cost = costs_[i];
    total += cost.schema_tokens;
    const bool has_block =
        store != nullptr &&
        std::any_of(cost.blocks.begin(), cost.blocks.end(),
                    [&](const auto& key) { return store->Contains(key); });
    tools.push_back({{"id", schema::ToolId(tool)},
                     {"server", tool.server},
                     {"name", tool.name},
                     {"description", tool.description},
                     {"parameters", tool.parameters},
                     {"tokens", cost.schema_tokens},
                     {"signature_tokens", cost.signature_tokens},
                     {"has_block", has_block}});
  }
  return Json{{"tools", std::move(tools)}, {"total_tokens", total}};
}

Result<Json> InspectApi::Store() const {
  if (engine_->store() == nullptr) return engine_->store_status();
  return StoreJson(*engine_->store());
}

Json InspectApi::Profile() const {
  const engine::RepairProfile* profile = engine_->profile();
  if (profile == nullptr) {
    return {{"profile", nullptr},
            {"reason", engine_->profile_status().message()}};
  }
  return {{"profile", engine::ProfileToJson(*profile)}};
}

}  // namespace nexus::serve
