// ComposeArm: one way to bring a list of blocks in, as `--arms` names it.
#ifndef NEXUS_ENGINE_COMPOSE_ARM_H_
#define NEXUS_ENGINE_COMPOSE_ARM_H_

#include <string>
#include <string_view>

#include "nexus/base/result.h"
#include "nexus/engine/list_compile.h"

namespace nexus::engine {

// "exact": the list decoded as text again, for the noise floor. Else
// RECIPE:PERCENT[+gold|+topK]: blocks of the recipe, repaired by sensitivity
// within so many percent; +gold decodes the right tool's block whole (what a
// perfect router would give), +topK the K blocks that BM25 ranks first.
struct ComposeArm {
  std::string name;
  bool is_exact = false;
  ListNeighbours neighbours = ListNeighbours::kGeneric;
  double share = 0;
  bool decode_gold = false;
  int decode_top = 0;

  bool depends_on_question() const { return decode_gold || decode_top > 0; }
};

// kInvalidArgument names what is wrong with it.
Result<ComposeArm> ParseComposeArm(std::string_view text);

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_COMPOSE_ARM_H_
