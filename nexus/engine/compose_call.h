// One call out of a list: the model chooses the tool's name among those listed
// and writes the arguments, both greedily, both under a grammar.
//
// A call can be compared with a draft, the reference's call for the same
// question. The draft's tokens are decoded in one batch, which gives the
// distributions at all of the reference's positions, and says at once where the
// greedy call would have left it: only from there on is anything generated.
#ifndef NEXUS_ENGINE_COMPOSE_CALL_H_
#define NEXUS_ENGINE_COMPOSE_CALL_H_

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "nexus/base/json.h"
#include "nexus/base/result.h"
#include "nexus/engine/call_generator.h"
#include "nexus/engine/engine.h"
#include "nexus/engine/session.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::engine {

struct ListCall {
  size_t tool = 0;  // index in the list
  std::string arguments_text;
  Json arguments;  // null: not JSON (never whole within the limit)
  // Sampled for the name, as far as it was open; and for the arguments.
  std::vector<llm::Token> choice;
  std::vector<llm::Token> argument_tokens;
  // Everything behind the list, the last token of the arguments left out.
  std::vector<llm::Token> tokens;
  size_t arguments_begin = 0;  // in tokens
  // The choice's tokens are the first of the name's own ids, so that a draft's
  // batch has their distributions.
  bool is_aligned = true;
};

// A row of logits at a sampled position of the reference: 0 is the first of the
// name's, and the arguments' follow the choice's.
using RowObserver =
    std::function<void(size_t position, std::span<const float> logits)>;

// Thread-compatible. Engine and list must outlive it.
class ListCaller {
 public:
  static Result<std::unique_ptr<ListCaller>> Create(
      const Engine* engine, std::span<const schema::ToolSchema> list,
      int max_argument_tokens);

  struct Choice {
    size_t tool = 0;
    bool space_follows = false;  // PromptPlan::space_before_arguments
  };
  // The tool alone. `session` stands behind the list, `user` and the call's
  // opening (PromptPlanner::CallOpeningTokens), its logits at hand; it is left
  // behind the call's preamble.
  Result<Choice> Choose(Session& session, size_t list_end,
                        std::span<const llm::Token> user);

  // `session` holds the list in its first `list_end` tokens; what is behind is
  // dropped. `draft`: null, or the reference's call.
  Result<ListCall> Call(Session& session, size_t list_end,
                        const std::string& question, const ListCall* draft,
                        const RowObserver& observe);

 private:
  ListCaller() = default;
  // The one name that can still become of `text`, or npos.
  size_t OnlyName(std::string_view text) const;
  Status FinishChoice(Session& session, llm::Sampler& sampler,
                      llm::Token sampled, const RowObserver& observe,
                      ListCall* call) const;
  // Brings the tokens up to the arguments behind the list.
  Status PlacePreamble(Session& session, size_t list_end,
                       std::span<const llm::Token> user, ListCall* call,
                       bool* space_follows) const;
  Status FinishArguments(Session& session, llm::Sampler& sampler,
                         llm::Token sampled, const RowObserver& observe,
                         ListCall* call) const;
  Result<std::unique_ptr<llm::Sampler>> ArgumentSampler(size_t tool,
                                                        bool leading_space);
  // From here the arguments can still be finished within the limit.
  bool MustClose(size_t used, const llm::Sampler& sampler) const;
  bool IsWhole(const ListCall& call) const;
  Status Finish(std::span<const llm::Token> user, ListCall* call) const;
  Result<ListCall> CallFromDraft(Session& session, size_t list_end,
                                 std::span<const llm::Token> user,
                                 const ListCall& draft,
                                 const RowObserver& observe);

  const Engine* engine_ = nullptr;
  std::span<const schema::ToolSchema> list_;
  int max_argument_tokens_ = 0;
  std::vector<llm::Token> opening_;
  std::vector<std::string> endings_;  // name"infix, as the grammar has them
  std::string name_grammar_;
  std::map<size_t, std::string> argument_grammars_;
};

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_COMPOSE_CALL_H_
