#include "nexus/engine/compose_call.h"

#include <algorithm>
#include <utility>

namespace nexus::engine {
namespace {

using llm::Token;

// A text as a GBNF literal.
std::string Literal(std::string_view text) {
  std::string literal = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') literal.push_back('\\');
    if (c == '\n') {
      literal += "\\n";
    } else {
      literal.push_back(c);
    }
  }
  return literal + "\"";
}

size_t CommonPrefix(std::span<const Token> a, std::span<const Token> b) {
  const auto [in_a, in_b] =
      std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<size_t>(in_a - a.begin());
}

std::vector<Token> Joined(std::span<const Token> a, std::span<const Token> b) {
  std::vector<Token> all(a.begin(), a.end());
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

}  // namespace

Result<std::unique_ptr<ListCaller>> ListCaller::Create(
    const Engine* engine, std::span<const schema::ToolSchema> list,
    int max_argument_tokens) {
  if (list.empty()) return InvalidArgumentError("a list needs a tool");
  std::unique_ptr<ListCaller> caller(new ListCaller());
  caller->engine_ = engine;
  caller->list_ = list;
  caller->max_argument_tokens_ = max_argument_tokens;
  NEXUS_ASSIGN_OR_RETURN(caller->opening_,
                         engine->planner().CallOpeningTokens());
  const std::string& infix = engine->planner().frame().call_infix;
  caller->name_grammar_ = "root ::= ";
  for (const schema::ToolSchema& tool : list) {
    // The opening ends with the quote.
    const std::string name = DumpJson(Json(tool.name)).substr(1);
    if (!caller->endings_.empty()) caller->name_grammar_ += " | ";
    caller->endings_.push_back(name + infix);
    caller->name_grammar_ += Literal(caller->endings_.back());
  }
  caller->name_grammar_ += "\n";
  return caller;
}

size_t ListCaller::OnlyName(std::string_view text) const {
  size_t only = std::string::npos;
  for (size_t i = 0; i < endings_.size(); ++i) {
    const std::string_view ending = endings_[i];
    if (!ending.starts_with(text) && !text.starts_with(ending)) continue;
    if (only != std::string::npos) return std::string::npos;
    only = i;
  }
  return only;
}

Status ListCaller::FinishChoice(Session& session, llm::Sampler& sampler,
                                Token sampled, const RowObserver& observe,
                                ListCall* call) const {
  std::string text;
  for (const Token token : call->choice) {
    text += engine_->model().TokenText(token);
  }
  while (true) {
    call->choice.push_back(sampled);
    text += engine_->model().TokenText(sampled);
    call->tool = OnlyName(text);
    if (call->tool != std::string::npos) return Status::Ok();
    if (engine_->model().IsEndOfGeneration(sampled) ||
        call->choice.size() > 64) {
      return InternalError("list: no name came of '" + text + "'");
    }
    NEXUS_RETURN_IF_ERROR(session.Append({&sampled, 1}, llm::Logits::kLast));
    if (observe) observe(call->choice.size(), session.logits());
    NEXUS_ASSIGN_OR_RETURN(sampled, sampler.Sample(session.logits()));
  }
}

Status ListCaller::PlacePreamble(Session& session, size_t list_end,
                                 std::span<const Token> user, ListCall* call,
                                 bool* space_follows) const {
  NEXUS_ASSIGN_OR_RETURN(
      const std::vector<Token> preamble,
      engine_->planner().PreambleTokens(list_[call->tool].name, space_follows));
  call->tokens = Joined(user, preamble);
  call->arguments_begin = call->tokens.size();
  // The choice as it was sampled, without its last token, must be what the
  // preamble's own ids begin with.
  std::vector<Token> sampled = Joined(user, opening_);
  sampled.insert(sampled.end(), call->choice.begin(), call->choice.end() - 1);
  call->is_aligned = CommonPrefix(sampled, call->tokens) == sampled.size();

  const std::span<const Token> wanted(call->tokens);
  const size_t common =
      std::min(CommonPrefix(wanted, session.tokens().subspan(list_end)),
               wanted.size() - 1);
  NEXUS_RETURN_IF_ERROR(session.TruncateTo(list_end + common));
  return session.Append(wanted.subspan(common), llm::Logits::kLast);
}

Result<std::unique_ptr<llm::Sampler>> ListCaller::ArgumentSampler(
    size_t tool, bool leading_space) {
  auto found = argument_grammars_.find(tool);
  if (found == argument_grammars_.end()) {
    NEXUS_ASSIGN_OR_RETURN(
        const auto constraint,
        MakeConstraint(engine_->model(), list_[tool], leading_space));
    found = argument_grammars_.emplace(tool, constraint->grammar).first;
  }
  llm::SamplerOptions options;
  options.grammar = found->second;
  return llm::Sampler::Create(engine_->model(), options);
}

bool ListCaller::MustClose(size_t used, const llm::Sampler& sampler) const {
  const auto limit = static_cast<size_t>(max_argument_tokens_);
  return used >= limit / 2 &&
         (used >= limit ||
          static_cast<int>(limit - used) <= sampler.ClosingTokens());
}

bool ListCaller::IsWhole(const ListCall& call) const {
  if (call.argument_tokens.empty()) return false;
  const Token last = call.argument_tokens.back();
  if (engine_->model().IsEndOfGeneration(last)) return true;
  return engine_->model().TokenText(last).find('}') != std::string::npos &&
         ParseJson(call.arguments_text, "arguments").ok();
}

Status ListCaller::FinishArguments(Session& session, llm::Sampler& sampler,
                                   Token sampled, const RowObserver& observe,
                                   ListCall* call) const {
  bool is_closing = false;
  while (true) {
    call->argument_tokens.push_back(sampled);
    if (!engine_->model().IsEndOfGeneration(sampled)) {
      call->arguments_text += engine_->model().TokenText(sampled);
    }
    const size_t used = call->argument_tokens.size();
    if (IsWhole(*call) || session.room() < 2) return Status::Ok();
    is_closing = is_closing || MustClose(used, sampler);
    NEXUS_RETURN_IF_ERROR(session.Append({&sampled, 1}, llm::Logits::kLast));
    if (observe) {
      observe(call->choice.size() + call->argument_tokens.size(),
              session.logits());
    }
    NEXUS_ASSIGN_OR_RETURN(sampled,
                           is_closing ? sampler.SampleClosing(session.logits())
                                      : sampler.Sample(session.logits()));
  }
}

Status ListCaller::Finish(std::span<const Token> user, ListCall* call) const {
  bool space_follows = false;
  NEXUS_ASSIGN_OR_RETURN(const std::vector<Token> preamble,
                         engine_->planner().PreambleTokens(
                             list_[call->tool].name, &space_follows));
  call->tokens = Joined(user, preamble);
  call->arguments_begin = call->tokens.size();
  call->tokens.insert(call->tokens.end(), call->argument_tokens.begin(),
                      call->argument_tokens.end() - 1);
  auto parsed = ParseJson(call->arguments_text, "arguments");
  if (parsed.ok()) call->arguments = *std::move(parsed);
  return Status::Ok();
}

Result<ListCaller::Choice> ListCaller::Choose(Session& session, size_t list_end,
                                              std::span<const Token> user) {
  llm::SamplerOptions options;
  options.grammar = name_grammar_;
  NEXUS_ASSIGN_OR_RETURN(const auto chooser,
                         llm::Sampler::Create(engine_->model(), options));
  ListCall call;
  NEXUS_ASSIGN_OR_RETURN(const Token sampled,
                         chooser->Sample(session.logits()));
  NEXUS_RETURN_IF_ERROR(
      FinishChoice(session, *chooser, sampled, nullptr, &call));
  Choice choice = {.tool = call.tool};
  NEXUS_RETURN_IF_ERROR(
      PlacePreamble(session, list_end, user, &call, &choice.space_follows));
  return choice;
}

Result<ListCall> ListCaller::CallFromDraft(Session& session, size_t list_end,
                                           std::span<const Token> user,
                                           const ListCall& draft,
                                           const RowObserver& observe) {
  NEXUS_RETURN_IF_ERROR(session.Append(draft.tokens, llm::Logits::kAll));
  // Rows are gone with the next Append.
  const size_t choice_begin = user.size() + opening_.size() - 1;
  const size_t arguments_begin = draft.arguments_begin - 1;
  const auto row = [&](size_t index) {
    return session.context().LogitsRow(static_cast<int>(index));
  };
  if (observe) {
    for (size_t i = 0; i < draft.choice.size(); ++i) {
      observe(i, row(choice_begin + i));
    }
    for (size_t i = 0; i < draft.argument_tokens.size(); ++i) {
      observe(draft.choice.size() + i, row(arguments_begin + i));
    }
  }
  ListCall call;
  llm::SamplerOptions name_options;
  name_options.grammar = name_grammar_;
  NEXUS_ASSIGN_OR_RETURN(const auto chooser,
                         llm::Sampler::Create(engine_->model(), name_options));
  bool space_follows = false;
  for (size_t i = 0; i < draft.choice.size(); ++i) {
    NEXUS_ASSIGN_OR_RETURN(const Token sampled,
                           chooser->Sample(row(choice_begin + i)));
    if (sampled == draft.choice[i]) {
      call.choice.push_back(sampled);
      continue;
    }
    NEXUS_RETURN_IF_ERROR(session.TruncateTo(list_end + choice_begin + 1 + i));
    NEXUS_RETURN_IF_ERROR(
        FinishChoice(session, *chooser, sampled, nullptr, &call));
    if (call.tool == draft.tool) break;  // other tokens, the same name
    NEXUS_RETURN_IF_ERROR(
        PlacePreamble(session, list_end, user, &call, &space_follows));
    NEXUS_ASSIGN_OR_RETURN(const auto writer,
                           ArgumentSampler(call.tool, space_follows));
    NEXUS_ASSIGN_OR_RETURN(const Token first, writer->Sample(session.logits()));
    NEXUS_RETURN_IF_ERROR(
        FinishArguments(session, *writer, first, nullptr, &call));
    NEXUS_RETURN_IF_ERROR(Finish(user, &call));
    return call;
  }
  call.tool = draft.tool;
  if (session.tokens().size() < list_end + draft.tokens.size()) {
    // The rows are gone with the name's other spelling.
    NEXUS_RETURN_IF_ERROR(session.TruncateTo(list_end));
    NEXUS_RETURN_IF_ERROR(session.Append(draft.tokens, llm::Logits::kAll));
  }
  const bool leading_space =
      engine_->planner().frame().call_infix.ends_with(' ');
  NEXUS_ASSIGN_OR_RETURN(const auto writer,
                         ArgumentSampler(call.tool, leading_space));
  bool is_closing = false;
  for (size_t i = 0; i < draft.argument_tokens.size(); ++i) {
    is_closing = is_closing || (i > 0 && MustClose(i, *writer));
    const auto logits = row(arguments_begin + i);
    NEXUS_ASSIGN_OR_RETURN(
        const Token sampled,
        is_closing ? writer->SampleClosing(logits) : writer->Sample(logits));
    if (sampled != draft.argument_tokens[i]) {
      NEXUS_RETURN_IF_ERROR(
          session.TruncateTo(list_end + draft.arguments_begin + i));
      NEXUS_RETURN_IF_ERROR(
          FinishArguments(session, *writer, sampled, nullptr, &call));
      NEXUS_RETURN_IF_ERROR(Finish(user, &call));
      return call;
    }
    call.argument_tokens.push_back(sampled);
    if (!engine_->model().IsEndOfGeneration(sampled)) {
      call.arguments_text += engine_->model().TokenText(sampled);
    }
  }
  NEXUS_RETURN_IF_ERROR(Finish(user, &call));
  return call;
}

Result<ListCall> ListCaller::Call(Session& session, size_t list_end,
                                  const std::string& question,
                                  const ListCall* draft,
                                  const RowObserver& observe) {
  NEXUS_RETURN_IF_ERROR(session.TruncateTo(list_end));
  const llm::ChatMessage message = {.role = "user", .content = question};
  NEXUS_ASSIGN_OR_RETURN(const std::vector<Token> user,
                         engine_->planner().ListTurnTokens({&message, 1}));
  if (draft != nullptr && draft->is_aligned) {
    return CallFromDraft(session, list_end, user, *draft, observe);
  }
  ListCall call;
  NEXUS_RETURN_IF_ERROR(
      session.Append(Joined(user, opening_), llm::Logits::kLast));
  if (observe) observe(0, session.logits());
  llm::SamplerOptions name_options;
  name_options.grammar = name_grammar_;
  NEXUS_ASSIGN_OR_RETURN(const auto chooser,
                         llm::Sampler::Create(engine_->model(), name_options));
  NEXUS_ASSIGN_OR_RETURN(Token sampled, chooser->Sample(session.logits()));
  NEXUS_RETURN_IF_ERROR(
      FinishChoice(session, *chooser, sampled, observe, &call));
  bool space_follows = false;
  NEXUS_RETURN_IF_ERROR(
      PlacePreamble(session, list_end, user, &call, &space_follows));
  const bool is_aligned = call.is_aligned;
  if (observe) observe(call.choice.size(), session.logits());
  NEXUS_ASSIGN_OR_RETURN(const auto writer,
                         ArgumentSampler(call.tool, space_follows));
  NEXUS_ASSIGN_OR_RETURN(sampled, writer->Sample(session.logits()));
  NEXUS_RETURN_IF_ERROR(
      FinishArguments(session, *writer, sampled, observe, &call));
  NEXUS_RETURN_IF_ERROR(Finish(user, &call));
  call.is_aligned = is_aligned;
  return call;
}

}  // namespace nexus::engine
