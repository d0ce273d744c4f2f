// Compile contexts: the texts in front of which blocks are compiled.
//
// A block's values depend a little on what stands before it. Compiled behind
// one text they carry that text's accent; the mean over several kinds of text
// is closer to what any conversation would give, and the spread shows which
// tokens to repair. So the set is varied on purpose: prose, source, dialogue,
// logs, a shell, tool lists, other languages, from a line to about a thousand
// tokens.
//
// Each stands behind the model's real template head: without it the first
// tokens of the block would become the attention sink.
#ifndef NEXUS_COMPILE_COMPILE_CONTEXTS_H_
#define NEXUS_COMPILE_COMPILE_CONTEXTS_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nexus/base/result.h"
#include "nexus/llm/model.h"
#include "nexus/schema/schema_frame.h"

namespace nexus::compile {

// The system turn that blocks are compiled behind, and that a conversation
// without one of its own gets: the same head in front of a block is what it was
// compiled for.
inline constexpr std::string_view kDefaultSystemPrompt =
    "You are a helpful assistant.";

struct CompileText {
  std::string_view name;    // "cpp-source"
  std::string_view user;    // what the user says
  std::string_view answer;  // what the assistant replied
};

// In the order of use: varied in kind from the first ones on, and short ones
// first, so that a few contexts take little time and fit a small model.
std::span<const CompileText> CompileTexts();

struct CompileContext {
  std::string name;
  std::vector<llm::Token> tokens;
};

// The first `count` texts as turns in the frame's format, tokenised. Whole or
// not at all: RecipeName() stands for them in a block's address, so a cut text
// would give other bytes under the same name. kResourceExhausted with the size
// that is needed when one leaves no room for `reserve_tokens` in a context of
// `context_tokens`; kInvalidArgument when count is not in
// [1, CompileTexts().size()].
struct CompileContextOptions {
  int count = 4;
  int context_tokens = 4096;
  int reserve_tokens = 1024;  // the longest block that will follow
};
Result<std::vector<CompileContext>> BuildCompileContexts(
    const llm::Model& model, const schema::SchemaFrame& frame,
    const CompileContextOptions& options = {});

// Name of the recipe, part of a splice block's address: changes when the texts,
// their number or the frame's family do.
std::string RecipeName(const schema::SchemaFrame& frame, int count);

}  // namespace nexus::compile

#endif  // NEXUS_COMPILE_COMPILE_CONTEXTS_H_
