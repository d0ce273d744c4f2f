// PromptPlan: what stands in the context when arguments are generated, as token
// ids, cut where Nexus may splice:
//
//   [history][block][user][preamble]
//
// history   the conversation before the last user turn, from the system head on
// block     the schema frame around the tool's schema (or its IR signature)
// user      the last user turn
// preamble  the forced beginning of the call, up to the arguments
//
// A plan of a list shows several tools at once, early, where models that were
// trained on lists expect them: within the system turn. Then
//
//   history   the system turn's beginning, alone
//   block     frame prefix | tool 1 | tool 2 | ... | frame suffix
//   user      all other turns
//
// so that what stands before the tools is the same in every conversation.
//
// Each part is tokenised on its own, so that a block's ids don't depend on its
// neighbours. Every tier, the full prefill too, decodes these same ids; so
// tiers can differ in their cells, never in their tokens.
#ifndef NEXUS_ENGINE_PROMPT_PLAN_H_
#define NEXUS_ENGINE_PROMPT_PLAN_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/compile/compile_contexts.h"
#include "nexus/llm/chat_template.h"
#include "nexus/llm/model.h"
#include "nexus/schema/schema_frame.h"
#include "nexus/schema/tool_schema.h"

namespace nexus::engine {

// What the model sees of a tool while it writes the arguments.
enum class ArgumentMode {
  kSchema,  // the full schema, spliced where possible
  kIr,      // the compressed signature, as text
};

// One tool of a list, or frame text beside it.
struct PlanPiece {
  size_t begin = 0;  // tokens [begin, end) of PromptPlan::block
  size_t end = 0;
  std::string tool_name;    // schema::ToolId; empty: frame text
  std::string schema_hash;  // hex
  bool is_tool() const { return !tool_name.empty(); }
};

struct PromptPlan {
  std::vector<llm::Token> history;
  std::vector<llm::Token> block;
  std::vector<llm::Token> user;
  std::vector<llm::Token> preamble;
  // The arguments continue the preamble with a space first: models learnt
  // `"arguments": {` as tokens that begin with the space.
  bool space_before_arguments = false;
  // Of a list, in order, covering the block. Empty: the block is spliced whole.
  std::vector<PlanPiece> pieces;

  size_t TokenCount() const {
    return history.size() + block.size() + user.size() + preamble.size();
  }
};

// Every token of the plan, in order.
std::vector<llm::Token> AllTokens(const PromptPlan& plan);

// Thread-safe after construction. The model must outlive it.
class PromptPlanner {
 public:
  explicit PromptPlanner(const llm::Model* model);

  const schema::SchemaFrame& frame() const { return frame_; }
  // Why the history isn't rendered by the model's own template; empty if it is.
  const std::string& template_note() const { return template_note_; }

  // The last message must be the user's. `call_tool` is forced as the call's
  // name.
  Result<PromptPlan> PlanCall(std::span<const llm::ChatMessage> messages,
                              std::span<const schema::ToolSchema> tools,
                              ArgumentMode mode,
                              std::string_view call_tool) const;

  // A free-text answer to the conversation: no block, and the preamble opens
  // the assistant's turn.
  Result<PromptPlan> PlanAnswer(
      std::span<const llm::ChatMessage> messages) const;

  // Several tools, in the order given (engine/list_order.h has the canonical
  // one). An empty `call_tool` ends the preamble behind the quote that opens
  // the tool's name, for the model to choose one.
  Result<PromptPlan> PlanList(std::span<const llm::ChatMessage> messages,
                              std::span<const schema::ToolSchema> tools,
                              std::string_view call_tool) const;
  // The same without a question: history and block alone.
  Result<PromptPlan> PlanListBlock(
      std::string_view system, std::span<const schema::ToolSchema> tools) const;
  // The other turns of a list's plan, behind its block. They may end with any
  // role: agents go on from a tool's result.
  Result<std::vector<llm::Token>> ListTurnTokens(
      std::span<const llm::ChatMessage> messages) const;
  // The ids of a tool within any list.
  Result<std::vector<llm::Token>> ListToolTokens(
      const schema::ToolSchema& tool) const;

  // The ids of a tool's schema block: what is compiled and what is spliced.
  Result<std::vector<llm::Token>> BlockTokens(
      std::span<const schema::ToolSchema> tools, ArgumentMode mode) const;

  // The user's turn around any text.
  Result<std::vector<llm::Token>> UserTokens(std::string_view content) const;
  // What is forced of a call. `space_follows` says that the arguments go on
  // with the space that was cut off. kInvalidArgument for a name that spells a
  // special token.
  Result<std::vector<llm::Token>> PreambleTokens(std::string_view call_tool,
                                                 bool* space_follows) const;

  // The same up to the quote that opens the name.
  Result<std::vector<llm::Token>> CallOpeningTokens() const;

  // A conversation up to, but not including, the last user turn.
  Result<std::vector<llm::Token>> HistoryTokens(
      std::span<const llm::ChatMessage> messages) const;

 private:
  Result<std::string> HistoryText(
      std::span<const llm::ChatMessage> messages) const;
  // The messages with specials broken, behind a system message.
  Result<std::vector<llm::ChatMessage>> SafeMessages(
      std::span<const llm::ChatMessage> messages) const;
  // Frame text is Nexus's own and may hold special tokens; content comes from
  // users and servers and must not become any.
  Status AppendFrame(std::string_view text,
                     std::vector<llm::Token>* tokens) const;
  Status AppendContent(std::string_view text,
                       std::vector<llm::Token>* tokens) const;
  // `text` with every spelling of a special token broken by a zero-width space:
  // for content that reaches the tokenizer inside a rendered template.
  Result<std::string> WithoutSpecials(const std::string& text) const;
  std::string FrameText(std::span<const llm::ChatMessage> messages) const;

  // How a list is cut. Where the frame's text allows it the separator belongs
  // to every tool's end, so that a list has no pieces of one token.
  struct ListFrame {
    std::string head_prefix;  // + system text + prefix
    std::string prefix;
    std::string tool_suffix;  // behind every tool
    std::string separator;    // between tools; empty when tool_suffix has it
    std::string suffix;
  };
  ListFrame MakeListFrame() const;

  const llm::Model* model_;
  std::unique_ptr<llm::ChatTemplate> template_;  // null: frame only
  schema::SchemaFrame frame_;
  std::string template_note_;
};

}  // namespace nexus::engine

#endif  // NEXUS_ENGINE_PROMPT_PLAN_H_
