#include "nexus/engine/compile_tools.h"

#include <algorithm>
#include <vector>

#include "nexus/engine/audit.h"

namespace nexus::engine {

Result<compile::CompileReport> CompileTools(
    const Engine& engine, std::span<const schema::ToolSchema> tools,
    const CompileToolsOptions& options) {
  NEXUS_RETURN_IF_ERROR(engine.splice_status());
  NEXUS_RETURN_IF_ERROR(engine.store_status());
  std::vector<compile::CompileJob> jobs;
  jobs.reserve(tools.size());
  int longest = 0;
  int missing = 0;
  int stored_otherwise = 0;
  for (const schema::ToolSchema& tool : tools) {
    NEXUS_ASSIGN_OR_RETURN(
        std::vector<llm::Token> tokens,
        engine.planner().BlockTokens({&tool, 1}, ArgumentMode::kSchema));
    longest = std::max(longest, static_cast<int>(tokens.size()));
    // Opened and verified: a damaged file counts as missing.
    const auto found = engine.store()->Find(
        engine.SpliceKey(tokens, options.contexts),
        {.expected = &engine.fingerprint(kv::BlockKind::kSplice)});
    missing += found.ok() ? 0 : 1;
    if (found.ok() && (*found)->storage() != options.storage) {
      ++stored_otherwise;
    }
    jobs.push_back({.tool_name = schema::ToolId(tool),
                    .schema_hash = ToHex(schema::SchemaHash(tool)),
                    .tokens = std::move(tokens)});
  }
  compile::CompileReport nothing_to_do;
  nothing_to_do.already_present = static_cast<int>(jobs.size());
  nothing_to_do.stored_otherwise = stored_otherwise;
  if (missing == 0 && !options.recompile) return nothing_to_do;

  const int cells = engine.options().context_tokens;
  NEXUS_ASSIGN_OR_RETURN(const std::vector<compile::CompileContext> contexts,
                         compile::BuildCompileContexts(
                             engine.model(), engine.planner().frame(),
                             {.count = options.contexts,
                              .context_tokens = cells,
                              .reserve_tokens = std::min(longest, cells / 2)}));
  NEXUS_ASSIGN_OR_RETURN(auto context, engine.NewContext(cells));
  NEXUS_ASSIGN_OR_RETURN(auto access, llm::KvAccess::Create(context.get()));
  NEXUS_ASSIGN_OR_RETURN(
      compile::CompileReport report,
      compile::CompileBlocks(
          engine.CompileEnvironmentFor(kv::BlockKind::kSplice, context.get(),
                                       access.get()),
          contexts, jobs,
          {.recipe =
               compile::RecipeName(engine.planner().frame(), options.contexts),
           .recompile = options.recompile,
           .storage = options.storage,
           .progress = options.progress,
           .cancel = options.cancel}));
  if (!options.recompile) return report;
  // What an audit held against the old blocks says nothing of the new ones.
  for (const compile::CompileJob& job : jobs) {
    NEXUS_RETURN_IF_ERROR(
        ClearDemotion(*engine.store(), engine.SchemaKey(job.tokens)));
  }
  return report;
}

}  // namespace nexus::engine
