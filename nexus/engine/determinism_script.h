// DeterminismScript: what one session of the determinism bench does, step by
// step, and a runner that hashes every row of logits it sees.
//
// A step is the smallest thing that a scheduler could put between two others:
// a piece of history, a prepared plan, one generated token.
#ifndef NEXUS_ENGINE_DETERMINISM_SCRIPT_H_
#define NEXUS_ENGINE_DETERMINISM_SCRIPT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nexus/base/hash.h"
#include "nexus/base/result.h"
#include "nexus/engine/engine.h"
#include "nexus/engine/prompt_plan.h"
#include "nexus/engine/session.h"
#include "nexus/engine/tier.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::engine {

enum class StepKind {
  kAppend,    // tokens of the history, all rows of logits kept
  kPrepare,   // a plan, by the tier that the step names
  kGenerate,  // the most likely token of the last row
};

struct ScriptStep {
  StepKind kind = StepKind::kGenerate;
  std::vector<llm::Token> tokens;  // kAppend
  size_t plan = 0;                 // kPrepare: index into the script's plans
  PrepareOptions prepare;          // kPrepare: its tier must be the one taken
};

struct DeterminismScript {
  std::string name;
  Tier tier = Tier::kPrefill;  // of the last plan
  schema::ToolSchema tool;
  std::vector<PromptPlan> plans;
  std::vector<ScriptStep> steps;
};

struct ScriptShape {
  int history_words = 100;
  int piece_tokens = 32;  // longest piece of history
  int generated_tokens = 8;
};

// Script number `index`, with a conversation that no other index has. The tiers
// take turns: splice, exact prefix (a second turn), prefill, exact variant.
Result<DeterminismScript> MakeScript(const Engine& engine,
                                     const schema::ToolSchema& tool, int index,
                                     const ScriptShape& shape);

// Cells that a session needs for the whole script.
int CellsOf(const DeterminismScript& script);

// What a run left behind. Two runs are the same when every field is.
struct ScriptTrace {
  std::vector<llm::Token> tokens;     // generated
  std::vector<uint64_t> step_hashes;  // XXH3 of the step's rows
  Sha256Digest logits_sha256{};       // of all rows in order
  int64_t rows = 0;
};

// Follows a script in a session of its own. Owned by one thread; engine and
// script must outlive it.
class ScriptRunner {
 public:
  static Result<std::unique_ptr<ScriptRunner>> Create(
      const Engine* engine, const DeterminismScript* script);

  bool done() const { return next_ == script_->steps.size(); }
  // kUnimplemented, with the reasons, when a plan comes by another tier than
  // the script says: the bench would measure something else.
  Status Step();
  // Once done().
  ScriptTrace Finish();
  Session& session() { return *session_; }

 private:
  explicit ScriptRunner(const DeterminismScript* script) : script_(script) {}
  Status Prepare(const ScriptStep& step);
  Status Generate();
  void Hash(std::span<const float> row);

  const DeterminismScript* script_;
  std::unique_ptr<Session> session_;
  size_t next_ = 0;
  uint64_t step_hash_ = 0;
  Sha256 sha256_;
  ScriptTrace trace_;
};

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_DETERMINISM_SCRIPT_H_
