#include "nexus/engine/call_generator.h"

#include <algorithm>
#include <utility>

#include "nexus/llm/grammar.h"

namespace nexus::engine {
namespace {

// Follows a JSON object as it is written and says when its last brace closes,
// which saves the decode that would only sample the end of generation.
class ObjectEndDetector {
 public:
  // Returns the number of bytes of `piece` that belong to the object if it ends
  // inside, else npos.
  size_t Feed(std::string_view piece) {
    for (size_t i = 0; i < piece.size(); ++i) {
      const char c = piece[i];
      if (in_string_) {
        if (escaped_) {
          escaped_ = false;
        } else if (c == '\\') {
          escaped_ = true;
        } else if (c == '"') {
          in_string_ = false;
        }
      } else if (c == '"') {
        in_string_ = true;
      } else if (c == '{' || c == '[') {
        ++depth_;
      } else if ((c == '}' || c == ']') && --depth_ == 0) {
        return i + 1;
      }
    }
    return std::string_view::npos;
  }

 private:
  int depth_ = 0;
  bool in_string_ = false;
  bool escaped_ = false;
};

// The converter's entry rule is "root"; put one space in front of what it
// matches.
std::string WithLeadingSpace(std::string grammar) {
  constexpr std::string_view kRoot = "root ::=";
  const size_t at = grammar.starts_with(kRoot) ? 0 : grammar.find("\nroot ::=");
  if (at == std::string::npos) return grammar;
  const size_t name = at == 0 ? 0 : at + 1;
  grammar.replace(name, kRoot.size(), "arguments-root ::=");
  return "root ::= \" \" arguments-root\n" + grammar;
}

// Fills `arguments` with the parsed text (null when it isn't JSON).
Status Judge(const CallConstraint& constraint, const std::string& text,
             Json* arguments) {
  *arguments = nullptr;
  NEXUS_ASSIGN_OR_RETURN(*arguments, ParseJson(text, "generated arguments"));
  if (!arguments->is_object()) {
    return InvalidArgumentError("arguments: expected an object");
  }
  if (constraint.validator == nullptr) {
    return InvalidArgumentError("not validated, the schema is unusable: " +
                                constraint.unchecked);
  }
  return constraint.validator->Validate(*arguments);
}

}  // namespace

Result<std::unique_ptr<CallConstraint>> MakeConstraint(
    const llm::Model& model, const schema::ToolSchema& tool,
    bool leading_space) {
  auto constraint = std::make_unique<CallConstraint>();
  auto validator = schema::ArgumentValidator::Create(tool.parameters);
  if (validator.ok()) {
    constraint->validator = std::move(validator).value();
  } else {
    constraint->unchecked = validator.status().message();
  }
  Status refused;
  for (int level = 0; level <= schema::kMaxRelaxLevel; ++level) {
    schema::RelaxedSchema relaxed =
        schema::RelaxForGrammar(tool.parameters, level);
    auto grammar = llm::JsonSchemaToGrammar(model, DumpJson(relaxed.schema));
    if (!grammar.ok()) {
      refused = grammar.status();
      continue;
    }
    constraint->grammar = leading_space
                              ? WithLeadingSpace(std::move(grammar).value())
                              : std::move(grammar).value();
    constraint->relaxed = std::move(relaxed.dropped);
    if (!refused.ok()) {
      constraint->relaxed.push_back("grammar relaxed to level " +
                                    std::to_string(level) + ": " +
                                    refused.message());
    }
    return constraint;
  }
  return refused.WithContext("tool '" + schema::ToolId(tool) +
                             "': no grammar at any level");
}

Result<CallGenerator::Sampled> CallGenerator::SampleObject(
    Session& session, const CallConstraint& constraint,
    const CallOptions& options) {
  NEXUS_ASSIGN_OR_RETURN(
      auto sampler,
      llm::Sampler::Create(*model_, {.temperature = options.temperature,
                                     .seed = options.seed,
                                     .grammar = constraint.grammar}));
  const int limit = std::min(options.max_tokens, session.room() - 1);
  Sampled result;
  ObjectEndDetector detector;
  bool closing = false;
  while (true) {
    // From here the object can still be finished within the limit. A schema
    // that needs more than half of it even at its shortest may overrun.
    closing = closing || (result.tokens >= limit / 2 &&
                          limit - result.tokens <= sampler->ClosingTokens());
    NEXUS_ASSIGN_OR_RETURN(const llm::Token token,
                           closing ? sampler->SampleClosing(session.logits())
                                   : sampler->Sample(session.logits()));
    if (result.tokens == 0) {
      result.first_token_at = Clock::Monotonic().Now();
    }
    if (model_->IsEndOfGeneration(token)) return result;
    ++result.tokens;
    result.closed_at_limit = closing;
    std::string piece = model_->TokenText(token);
    const size_t end = detector.Feed(piece);
    if (end != std::string_view::npos) piece.resize(end);
    result.text += piece;
    if (options.on_text) options.on_text(piece);
    // The object is whole, or there is no cell left for another token. Nothing
    // is sampled behind the last one, so nobody waits for its cell.
    if (end != std::string_view::npos || session.room() < 2) {
      result.undecoded = token;
      return result;
    }
    NEXUS_RETURN_IF_ERROR(session.Step(token));
  }
}

Result<std::shared_ptr<const CallConstraint>> CallGenerator::ConstraintFor(
    const schema::ToolSchema& tool, bool leading_space) {
  const std::string key =
      schema::CanonicalText(tool) + (leading_space ? " " : "");
  if (const auto found = constraints_.find(key); found != constraints_.end()) {
    return found->second;
  }
  NEXUS_ASSIGN_OR_RETURN(std::shared_ptr<const CallConstraint> made,
                         MakeConstraint(*model_, tool, leading_space));
  // A server sees tools of all its clients' making. They come again, so which
  // of them go matters little.
  if (constraints_.size() >= kMaxConstraints) constraints_.clear();
  constraints_.emplace(key, made);
  return made;
}

Result<GeneratedCall> CallGenerator::Generate(Session& session,
                                              const PromptPlan& plan,
                                              const PromptPlanner& planner,
                                              const schema::ToolSchema& tool,
                                              const CallOptions& options) {
  NEXUS_ASSIGN_OR_RETURN(const std::shared_ptr<const CallConstraint> found,
                         ConstraintFor(tool, plan.space_before_arguments));
  const CallConstraint& constraint = *found;

  GeneratedCall call;
  call.relaxed = constraint.relaxed;
  while (true) {
    NEXUS_ASSIGN_OR_RETURN(Sampled sampled,
                           SampleObject(session, constraint, options));
    if (call.repair_rounds == 0) call.first_token_at = sampled.first_token_at;
    call.sampled_tokens += sampled.tokens;
    call.closed_at_limit = sampled.closed_at_limit;
    call.text = std::move(sampled.text);
    const Status verdict = Judge(constraint, call.text, &call.arguments);
    call.valid = verdict.ok();
    call.invalid_reason = verdict.message();
    // Another round can't help where the schema itself is unusable.
    if (call.valid || constraint.validator == nullptr || !options.repair ||
        call.repair_rounds == 1) {
      return call;
    }

    // The one repair round: show the model what was wrong, in its own format,
    // and let it call again.
    std::vector<llm::Token> again;
    if (sampled.undecoded.has_value()) again.push_back(*sampled.undecoded);
    NEXUS_ASSIGN_OR_RETURN(const std::vector<llm::Token> suffix,
                           model_->Tokenize(planner.frame().call_suffix));
    again.insert(again.end(), suffix.begin(), suffix.end());
    NEXUS_ASSIGN_OR_RETURN(
        const std::vector<llm::Token> complaint,
        planner.UserTokens(
            "These arguments are not valid: " + call.invalid_reason +
            ". Call the function again with valid arguments."));
    bool space_follows = false;
    NEXUS_ASSIGN_OR_RETURN(const std::vector<llm::Token> preamble,
                           planner.PreambleTokens(tool.name, &space_follows));
    again.insert(again.end(), complaint.begin(), complaint.end());
    again.insert(again.end(), preamble.begin(), preamble.end());
    constexpr int kLeastUsefulRoom = 32;
    if (session.room() < static_cast<int>(again.size()) + kLeastUsefulRoom) {
      call.invalid_reason += "; the context is too full for a repair round";
      return call;
    }
    ++call.repair_rounds;
    NEXUS_RETURN_IF_ERROR(session.Append(again, llm::Logits::kLast));
    if (options.on_text) options.on_text("\n");
  }
}

}  // namespace nexus::engine
