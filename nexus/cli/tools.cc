// nexus tools: what the servers or a registry offer, and what it costs in
// tokens.
#include <algorithm>
#include <cstdio>

#include "nexus/cli/commands.h"
#include "nexus/cli/exit_code.h"
#include "nexus/cli/terminal.h"
#include "nexus/pull/model_catalog.h"
#include "nexus/schema/ir_signature.h"

namespace nexus::cli {
namespace {

struct ToolCost {
  int schema_tokens = -1;  // -1: no tokenizer at hand
  int ir_tokens = -1;
  std::string signature;
};

int Quantile(std::vector<int> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(
      values.size() - 1,
      static_cast<size_t>(share * static_cast<double>(values.size())))];
}

// Counts by the served model's tokenizer; the vocabulary alone loads quickly.
Result<std::vector<ToolCost>> Cost(const std::vector<schema::ToolSchema>& tools,
                                   const llm::Model* model) {
  std::vector<ToolCost> costs;
  for (const schema::ToolSchema& tool : tools) {
    ToolCost cost;
    cost.signature = schema::IrSignature(tool);
    if (model != nullptr) {
      NEXUS_ASSIGN_OR_RETURN(
          const auto full,
          model->Tokenize(schema::ModelText(tool), {.parse_special = false}));
      NEXUS_ASSIGN_OR_RETURN(
          const auto ir,
          model->Tokenize(cost.signature, {.parse_special = false}));
      cost.schema_tokens = static_cast<int>(full.size());
      cost.ir_tokens = static_cast<int>(ir.size());
    }
    costs.push_back(std::move(cost));
  }
  return costs;
}

Json ToJson(const schema::ToolSchema& tool, const ToolCost& cost) {
  Json object = {{"id", schema::ToolId(tool)},
                 {"server", tool.server},
                 {"name", tool.name},
                 {"description", tool.description},
                 {"inputSchema", tool.parameters},
                 {"schema_hash", ToHex(schema::SchemaHash(tool))},
                 {"signature", cost.signature}};
  if (cost.schema_tokens >= 0) {
    object["schema_tokens"] = cost.schema_tokens;
    object["ir_tokens"] = cost.ir_tokens;
  }
  return object;
}

int Run(const GlobalOptions& globals, bool signatures) {
  auto source = LoadTools(globals);
  if (!source.ok()) return Fail(source.status());
  std::shared_ptr<const llm::Model> model;
  auto path = pull::ResolveModel(globals.model);
  if (path.ok()) {
    auto loaded = llm::Model::Load({.path = *path, .vocab_only = true});
    if (!loaded.ok()) return Fail(loaded.status());
    model = std::move(loaded).value();
  } else if (!globals.model.empty()) {
    return Fail(path.status());
  } else {
    Note("no token counts: " + path.status().message());
  }
  auto costs = Cost(source->tools, model.get());
  if (!costs.ok()) return Fail(costs.status());

  std::vector<int> ir, full;
  for (const ToolCost& cost : *costs) {
    ir.push_back(cost.ir_tokens);
    full.push_back(cost.schema_tokens);
  }
  int64_t full_sum = 0, ir_sum = 0;
  for (const int count : full) full_sum += count;
  for (const int count : ir) ir_sum += count;

  if (globals.json) {
    Json tools = Json::array();
    for (size_t i = 0; i < source->tools.size(); ++i) {
      tools.push_back(ToJson(source->tools[i], (*costs)[i]));
    }
    Json object = {{"count", source->tools.size()}};
    if (model != nullptr) {
      object["model"] = model->info().name;
      object["schema_tokens"] = {{"total", full_sum},
                                 {"median", Quantile(full, 0.5)},
                                 {"p95", Quantile(full, 0.95)}};
      object["ir_tokens"] = {{"total", ir_sum},
                             {"median", Quantile(ir, 0.5)},
                             {"p95", Quantile(ir, 0.95)}};
    }
    object["tools"] = std::move(tools);
    PrintJson(object);
    return kExitOk;
  }
  Table table({"tool", "schema", "IR", signatures ? "signature" : "purpose"});
  for (size_t i = 0; i < source->tools.size(); ++i) {
    const schema::ToolSchema& tool = source->tools[i];
    const ToolCost& cost = (*costs)[i];
    const bool counted = cost.schema_tokens >= 0;
    table.AddRow({schema::ToolId(tool),
                  counted ? FormatCount(cost.schema_tokens) : "-",
                  counted ? FormatCount(cost.ir_tokens) : "-",
                  signatures ? cost.signature : tool.description});
  }
  std::printf("%s", table.Render().c_str());
  if (model == nullptr) {
    std::printf("\n%zu tools\n", source->tools.size());
    return kExitOk;
  }
  std::printf(
      "\n%zu tools: %s tokens as schemas (median %d, p95 %d), %s as IR "
      "signatures (median %d, p95 %d)\nby the tokenizer of %s\n",
      source->tools.size(), FormatCount(full_sum).c_str(), Quantile(full, 0.5),
      Quantile(full, 0.95), FormatCount(ir_sum).c_str(), Quantile(ir, 0.5),
      Quantile(ir, 0.95), model->info().name.c_str());
  return kExitOk;
}

}  // namespace

void AddToolsCommand(CLI::App* app, Action* action) {
  auto globals = std::make_shared<GlobalOptions>();
  CLI::App* command = app->add_subcommand(
      "tools", "List tools and what they cost in tokens, in full and as IR");
  auto signatures = std::make_shared<bool>(false);
  AddToolFlags(command, globals.get());
  AddModelFlags(command, globals.get());
  command->add_flag("--signatures", *signatures,
                    "Show IR signatures instead of descriptions");
  AddJsonFlag(command, globals.get());
  command->callback(
      [=] { *action = [=] { return Run(*globals, *signatures); }; });
}

}  // namespace nexus::cli
