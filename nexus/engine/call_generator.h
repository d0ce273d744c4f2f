// CallGenerator: the arguments of one call, sampled under the tool's own
// grammar, checked by a validator, repaired once.
#ifndef NEXUS_ENGINE_CALL_GENERATOR_H_
#define NEXUS_ENGINE_CALL_GENERATOR_H_

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/clock.h"
#include "nexus/base/json.h"
#include "nexus/base/result.h"
#include "nexus/engine/session.h"
#include "nexus/llm/sampler.h"
#include "nexus/schema/argument_validator.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::engine {

struct CallOptions {
  int max_tokens = 512;  // of the arguments, a repair round apart
  float temperature = 0.0F;
  uint32_t seed = 1;
  bool repair = true;
  // Pieces of the arguments as they are sampled; valid UTF-8 in sum, not each.
  std::function<void(std::string_view)> on_text;
};

struct GeneratedCall {
  Json arguments;    // null: what was sampled isn't JSON
  std::string text;  // as sampled, of the last round
  // An object that the tool's own schema accepts. False too when there was
  // nothing to validate it with.
  bool valid = false;
  std::string invalid_reason;
  bool closed_at_limit = false;  // steered to an end near max_tokens
  int sampled_tokens = 0;
  int repair_rounds = 0;
  // Constraints that the grammar couldn't hold and only the validator checked.
  std::vector<std::string> relaxed;
  std::chrono::nanoseconds first_token_at{0};  // Clock::Monotonic()
};

// How a tool's arguments are constrained: made once a tool, then reused.
struct CallConstraint {
  std::string grammar;
  std::vector<std::string> relaxed;
  std::unique_ptr<schema::ArgumentValidator> validator;  // null: see unchecked
  std::string unchecked;  // why there is no validator
};

// Tries the strictest grammar that llama.cpp accepts for this tool's schema.
// Never fails for a schema that can be read: the last resort is any JSON
// object.
Result<std::unique_ptr<CallConstraint>> MakeConstraint(
    const llm::Model& model, const schema::ToolSchema& tool,
    bool leading_space);

// Keeps the constraints of the tools it has seen lately. Of whoever has the
// turn (step_batch.h): a session that generates in a batch has given it up, but
// what goes on then doesn't touch this object.
class CallGenerator {
 public:
  static constexpr size_t kMaxConstraints = 256;

  explicit CallGenerator(const llm::Model* model) : model_(model) {}

  // What Generate will use for this tool.
  Result<std::shared_ptr<const CallConstraint>> ConstraintFor(
      const schema::ToolSchema& tool, bool leading_space);

  // The session must stand behind the plan's preamble with its logits at hand.
  // Leaves the session behind the last sampled token. A context that fills up
  // gives an invalid call, not an error.
  Result<GeneratedCall> Generate(Session& session, const PromptPlan& plan,
                                 const PromptPlanner& planner,
                                 const schema::ToolSchema& tool,
                                 const CallOptions& options);

 private:
  struct Sampled {
    std::string text;
    int tokens = 0;
    bool closed_at_limit = false;
    std::chrono::nanoseconds first_token_at{0};
    std::optional<llm::Token> undecoded;  // the last, if the session lacks it
  };
  Result<Sampled> SampleObject(Session& session,
                               const CallConstraint& constraint,
                               const CallOptions& options);

  const llm::Model* model_;
  std::map<std::string, std::shared_ptr<const CallConstraint>> constraints_;
};

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_CALL_GENERATOR_H_
