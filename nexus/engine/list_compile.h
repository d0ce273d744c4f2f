// Blocks for lists: one tool each, compiled for a place among other tools.
//
// A tool's cells within a list depend on the tools before it far more than a
// block of its own depends on the conversation. Compiled behind the bare frame
// and laid side by side such blocks lose the choice of the tool; the mean over
// contexts made of other tools is much closer (docs/composition.md has the
// figures). Three recipes:
//
//   alone     behind head and frame prefix only: the baseline
//   generic   behind one to four generic tools (compile/list_tools.h), which
//             are decoded once for all blocks
//   given     behind each other: shuffled lists of the given tools are decoded,
//             and every tool in them is a sample at the place where it stands.
//             A sample costs a tool its own tokens and nothing else
#ifndef NEXUS_ENGINE_LIST_COMPILE_H_
#define NEXUS_ENGINE_LIST_COMPILE_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/compile/block_compiler.h"
#include "nexus/engine/engine.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::engine {

enum class ListNeighbours { kNone, kGeneric, kGiven };

// "alone", "generic", "given".
std::string_view ListNeighboursName(ListNeighbours neighbours);
std::optional<ListNeighbours> ParseListNeighbours(std::string_view name);

struct CompileListOptions {
  ListNeighbours neighbours = ListNeighbours::kGeneric;
  // Compile contexts of a generic block (at most ListToolSets().size()), or
  // shuffled lists; alone has one.
  int samples = 6;
  // given: tools in one shuffled list. As many as lists will have.
  int list_tools = 20;
  bool recompile = false;
  std::function<void(const compile::CompileProgress&)> progress;
  const std::atomic<bool>* cancel = nullptr;
};

// The recipe's name, "list-hermes-given-6-0a1b2c3d". Of `given` it stands for
// the set of tools too.
std::string ListRecipeName(const Engine& engine,
                           std::span<const schema::ToolSchema> tools,
                           const CompileListOptions& options);

// Tools whose block of this recipe is in the store already cost nothing. As
// CompileTools otherwise; kInvalidArgument for counts out of range.
Result<compile::CompileReport> CompileList(
    const Engine& engine, std::span<const schema::ToolSchema> tools,
    const CompileListOptions& options);

// Finds list blocks. Reads the store's index once: made anew for each list.
class ListBlockFinder {
 public:
  // An empty recipe takes, tool by tool, the block with the most samples.
  ListBlockFinder(const Engine* engine, std::string recipe);
  // kNotFound: not compiled.
  Result<std::shared_ptr<const kv::KvBlock>> Find(
      std::span<const llm::Token> tokens, const PlanPiece& piece) const;

 private:
  const Engine* engine_;
  std::string recipe_;
  // [schema hash] -> recipes, best first.
  std::map<std::string, std::vector<std::string>> recipes_;
};

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_LIST_COMPILE_H_
