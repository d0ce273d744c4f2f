#include "nexus/compile/compile_contexts.h"

#include <algorithm>

#include "nexus/base/hash.h"

namespace nexus::compile {
namespace {

constexpr std::string_view kSystemText = "You are a helpful assistant.";
// Below this a cut text says nothing.
constexpr size_t kShortestText = 8;

Status Append(const llm::Model& model, std::string_view text,
              const llm::TokenizeOptions& options,
              std::vector<llm::Token>* tokens) {
  NEXUS_ASSIGN_OR_RETURN(const std::vector<llm::Token> more,
                         model.Tokenize(text, options));
  tokens->insert(tokens->end(), more.begin(), more.end());
  return Status::Ok();
}

// Head, user turn and answer are tokenised apart, as the engine does it.
Result<CompileContext> Build(const llm::Model& model,
                             const schema::SchemaFrame& frame,
                             const CompileText& text, size_t room) {
  CompileContext context;
  context.name = text.name;
  const std::string head =
      frame.head_prefix + std::string(kSystemText) + frame.head_suffix;
  NEXUS_RETURN_IF_ERROR(
      Append(model, head, {.add_bos = true}, &context.tokens));
  NEXUS_RETURN_IF_ERROR(Append(model, frame.user_prefix, {}, &context.tokens));

  std::vector<llm::Token> body;
  // The text is data: a "<|im_end|>" in it must not become a control token.
  NEXUS_RETURN_IF_ERROR(
      Append(model, text.user, {.parse_special = false}, &body));
  std::vector<llm::Token> tail;
  NEXUS_RETURN_IF_ERROR(Append(model, frame.user_suffix, {}, &tail));
  NEXUS_RETURN_IF_ERROR(Append(model, frame.answer_prefix, {}, &tail));
  NEXUS_RETURN_IF_ERROR(
      Append(model, text.answer, {.parse_special = false}, &tail));
  NEXUS_RETURN_IF_ERROR(Append(model, frame.answer_suffix, {}, &tail));

  const size_t fixed = context.tokens.size() + tail.size();
  if (fixed + kShortestText > room) {
    return InvalidArgumentError(
        "compile context '" + context.name + "': its frame of " +
        std::to_string(fixed) + " tokens leaves no text in a room of " +
        std::to_string(room) + "; give a larger context");
  }
  body.resize(std::min(body.size(), room - fixed));
  context.tokens.insert(context.tokens.end(), body.begin(), body.end());
  context.tokens.insert(context.tokens.end(), tail.begin(), tail.end());
  return context;
}

}  // namespace

Result<std::vector<CompileContext>> BuildCompileContexts(
    const llm::Model& model, const schema::SchemaFrame& frame,
    const CompileContextOptions& options) {
  const std::span<const CompileText> texts = CompileTexts();
  if (options.count < 1 || static_cast<size_t>(options.count) > texts.size()) {
    return InvalidArgumentError(
        "compile contexts: " + std::to_string(options.count) +
        " asked for, expected 1 to " + std::to_string(texts.size()));
  }
  if (options.reserve_tokens < 0 ||
      options.context_tokens <= options.reserve_tokens) {
    return InvalidArgumentError(
        "compile contexts: a context of " +
        std::to_string(options.context_tokens) + " tokens has no room beside " +
        std::to_string(options.reserve_tokens) + " for the block");
  }
  const auto room =
      static_cast<size_t>(options.context_tokens - options.reserve_tokens);
  std::vector<CompileContext> contexts;
  for (const CompileText& text :
       texts.first(static_cast<size_t>(options.count))) {
    NEXUS_ASSIGN_OR_RETURN(CompileContext context,
                           Build(model, frame, text, room));
    contexts.push_back(std::move(context));
  }
  return contexts;
}

std::string RecipeName(const schema::SchemaFrame& frame, int count) {
  Sha256 hash;
  hash.Update(kSystemText);
  for (const CompileText& text : CompileTexts().first(std::min(
           CompileTexts().size(), static_cast<size_t>(std::max(count, 0))))) {
    hash.Update(text.user);
    hash.Update(text.answer);
  }
  // Eight digits tell versions of the texts apart.
  return "mean-" + frame.family + "-" + std::to_string(count) + "-" +
         ToHex(hash.Finish()).substr(0, 8);
}

}  // namespace nexus::compile
