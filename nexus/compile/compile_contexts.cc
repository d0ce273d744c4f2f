#include "nexus/compile/compile_contexts.h"

#include <algorithm>

#include "nexus/base/hash.h"

namespace nexus::compile {
namespace {

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
                             const CompileText& text) {
  CompileContext context;
  context.name = text.name;
  const std::string head =
      frame.head_prefix + std::string(kDefaultSystemPrompt) + frame.head_suffix;
  // The texts are data: a "<|im_end|>" in one must not become a control token.
  const llm::TokenizeOptions as_data = {.parse_special = false};
  std::vector<llm::Token>* tokens = &context.tokens;
  NEXUS_RETURN_IF_ERROR(Append(model, head, {.add_bos = true}, tokens));
  NEXUS_RETURN_IF_ERROR(Append(model, frame.user_prefix, {}, tokens));
  NEXUS_RETURN_IF_ERROR(Append(model, text.user, as_data, tokens));
  NEXUS_RETURN_IF_ERROR(Append(model, frame.user_suffix, {}, tokens));
  NEXUS_RETURN_IF_ERROR(Append(model, frame.answer_prefix, {}, tokens));
  NEXUS_RETURN_IF_ERROR(Append(model, text.answer, as_data, tokens));
  NEXUS_RETURN_IF_ERROR(Append(model, frame.answer_suffix, {}, tokens));
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
  if (options.reserve_tokens < 0) {
    return InvalidArgumentError("compile contexts: a reserve of " +
                                std::to_string(options.reserve_tokens) +
                                " tokens");
  }
  std::vector<CompileContext> contexts;
  for (const CompileText& text :
       texts.first(static_cast<size_t>(options.count))) {
    NEXUS_ASSIGN_OR_RETURN(CompileContext context, Build(model, frame, text));
    contexts.push_back(std::move(context));
  }
  const auto longest = std::max_element(
      contexts.begin(), contexts.end(), [](const auto& a, const auto& b) {
        return a.tokens.size() < b.tokens.size();
      });
  const size_t needed =
      longest->tokens.size() + static_cast<size_t>(options.reserve_tokens);
  if (options.context_tokens < 0 ||
      needed > static_cast<size_t>(options.context_tokens)) {
    return ResourceExhaustedError(
        "compile contexts need --ctx " + std::to_string(needed) + ": '" +
        longest->name + "' has " + std::to_string(longest->tokens.size()) +
        " tokens and the tool behind it " +
        std::to_string(options.reserve_tokens) + ", the context has room for " +
        std::to_string(options.context_tokens) +
        "; give a larger one, or fewer compile contexts (short ones come "
        "first)");
  }
  return contexts;
}

std::string RecipeName(const schema::SchemaFrame& frame, int count) {
  Sha256 hash;
  hash.Update(kDefaultSystemPrompt);
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
