// CompileTools: schemas -> blocks in the engine's store, with the engine's own
// frame and a context of its own.
#ifndef NEXUS_ENGINE_COMPILE_TOOLS_H_
#define NEXUS_ENGINE_COMPILE_TOOLS_H_

#include <atomic>
#include <functional>
#include <span>

#include "nexus/base/result.h"
#include "nexus/compile/block_compiler.h"
#include "nexus/engine/engine.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::engine {

inline constexpr int kDefaultCompileContexts = 4;

struct CompileToolsOptions {
  int contexts = kDefaultCompileContexts;
  bool recompile = false;
  kv::BlockStorage storage = {};  // as compile::CompileOptions
  std::function<void(const compile::CompileProgress&)> progress;
  const std::atomic<bool>* cancel = nullptr;
};

// Tools whose block is in the store already cost nothing. Errors as
// compile::CompileBlocks; kUnimplemented when this model can't be spliced at
// all.
Result<compile::CompileReport> CompileTools(
    const Engine& engine, std::span<const schema::ToolSchema> tools,
    const CompileToolsOptions& options);

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_COMPILE_TOOLS_H_
