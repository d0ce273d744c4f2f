#include "nexus/engine/determinism_script.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "nexus/engine/bench_text.h"

namespace nexus::engine {
namespace {

constexpr std::array<Tier, 4> kTiers = {Tier::kSplice, Tier::kExactPrefix,
                                        Tier::kPrefill, Tier::kExactVariant};
constexpr std::array<std::string_view, 4> kQuestions = {
    "Please do this for the second entry of my notes.",
    "Do it for the first thing that I mentioned, and for nothing else.",
    "Now the same with the last note; keep all other values as they are.",
    "Take whatever fits the note that speaks of water, if there is one."};

Result<PromptPlan> MakePlan(const Engine& engine,
                            const schema::ToolSchema& tool, int index,
                            std::string_view question,
                            const ScriptShape& shape) {
  // Lengths differ from script to script, so that sessions stand at other
  // depths and their batches are of other sizes.
  const int words = shape.history_words + 7 * index;
  const std::vector<llm::ChatMessage> messages = {
      {.role = "user",
       .content = "Notes of desk " + std::to_string(index + 1) + ".\n\n" +
                  BenchProse(words)},
      {.role = "assistant", .content = "Thank you, I have read them."},
      {.role = "user", .content = std::string(question)}};
  return engine.planner().PlanCall(messages, {&tool, 1}, ArgumentMode::kSchema,
                                   tool.name);
}

void AppendPieces(std::span<const llm::Token> tokens, int piece_tokens,
                  std::vector<ScriptStep>* steps) {
  const auto piece = static_cast<size_t>(std::max(1, piece_tokens));
  for (size_t at = 0; at < tokens.size(); at += piece) {
    const auto part = tokens.subspan(at, std::min(piece, tokens.size() - at));
    ScriptStep step;
    step.kind = StepKind::kAppend;
    step.tokens.assign(part.begin(), part.end());
    steps->push_back(std::move(step));
  }
}

void AppendTurn(size_t plan, const PrepareOptions& prepare,
                const ScriptShape& shape, std::vector<ScriptStep>* steps) {
  ScriptStep step;
  step.kind = StepKind::kPrepare;
  step.plan = plan;
  step.prepare = prepare;
  steps->push_back(std::move(step));
  steps->resize(steps->size() + static_cast<size_t>(shape.generated_tokens));
}

}  // namespace

Result<DeterminismScript> MakeScript(const Engine& engine,
                                     const schema::ToolSchema& tool, int index,
                                     const ScriptShape& shape) {
  DeterminismScript script;
  const auto number = static_cast<size_t>(index);
  script.tier = kTiers[number % kTiers.size()];
  script.name = std::string(TierName(script.tier)) + " " +
                std::to_string(index / static_cast<int>(kTiers.size()) + 1);
  script.tool = tool;
  NEXUS_ASSIGN_OR_RETURN(
      PromptPlan first,
      MakePlan(engine, tool, index, kQuestions[number % kQuestions.size()],
               shape));
  script.plans.push_back(std::move(first));
  AppendPieces(script.plans[0].history, shape.piece_tokens, &script.steps);
  PrepareOptions prepare;
  prepare.tier = script.tier;
  switch (script.tier) {
    case Tier::kSplice:
      // Every other splice is repaired, so that decoding runs between spliced
      // ones are interleaved too.
      prepare.policy = index % 8 == 0 ? kv::RepairPolicy::kHeadTail
                                      : kv::RepairPolicy::kNone;
      prepare.recompute_share = index % 8 == 0 ? 0.22 : 0.0;
      break;
    case Tier::kExactPrefix: {
      // A first turn by prefill; the second finds history and block there.
      NEXUS_ASSIGN_OR_RETURN(
          PromptPlan second,
          MakePlan(engine, tool, index,
                   kQuestions[(number + 1) % kQuestions.size()], shape));
      script.plans.push_back(std::move(second));
      AppendTurn(0, {.tier = Tier::kPrefill}, shape, &script.steps);
      break;
    }
    default:
      break;
  }
  AppendTurn(script.plans.size() - 1, prepare, shape, &script.steps);
  return script;
}

int CellsOf(const DeterminismScript& script) {
  size_t longest = 0;
  for (const PromptPlan& plan : script.plans) {
    longest = std::max(longest, plan.TokenCount());
  }
  // Steps that generate come one a token; the others are fewer than the plan's
  // tokens, so this is enough with room to spare.
  return static_cast<int>(longest + script.steps.size() + 1);
}

Result<std::unique_ptr<ScriptRunner>> ScriptRunner::Create(
    const Engine* engine, const DeterminismScript* script) {
  std::unique_ptr<ScriptRunner> runner(new ScriptRunner(script));
  NEXUS_ASSIGN_OR_RETURN(runner->session_,
                         Session::Create(engine, CellsOf(*script)));
  return runner;
}

void ScriptRunner::Hash(std::span<const float> row) {
  const std::array<uint64_t, 2> link = {step_hash_,
                                        Xxh3(row.data(), row.size_bytes())};
  step_hash_ = Xxh3(link.data(), sizeof link);
  sha256_.Update(row.data(), row.size_bytes());
  ++trace_.rows;
}

Status ScriptRunner::Prepare(const ScriptStep& step) {
  NEXUS_ASSIGN_OR_RETURN(
      const TierReport report,
      session_->Prepare(script_->plans[step.plan], step.prepare));
  if (report.tier != step.prepare.tier) {
    std::string why;
    for (const std::string& reason : report.reasons) why += "; " + reason;
    return UnimplementedError(script_->name + ": asked for tier " +
                              std::string(TierName(step.prepare.tier)) +
                              ", got " + std::string(TierName(report.tier)) +
                              why);
  }
  Hash(session_->logits());
  return Status::Ok();
}

Status ScriptRunner::Generate() {
  const std::span<const float> row = session_->logits();
  const auto token = static_cast<llm::Token>(
      std::max_element(row.begin(), row.end()) - row.begin());
  trace_.tokens.push_back(token);
  NEXUS_RETURN_IF_ERROR(session_->Append({&token, 1}, llm::Logits::kLast));
  Hash(session_->logits());
  return Status::Ok();
}

Status ScriptRunner::Step() {
  const ScriptStep& step = script_->steps[next_];
  step_hash_ = 0;
  switch (step.kind) {
    case StepKind::kAppend:
      NEXUS_RETURN_IF_ERROR(session_->Append(step.tokens, llm::Logits::kAll));
      for (size_t i = 0; i < step.tokens.size(); ++i) {
        Hash(session_->context().LogitsRow(static_cast<int>(i)));
      }
      break;
    case StepKind::kPrepare:
      NEXUS_RETURN_IF_ERROR(Prepare(step));
      break;
    case StepKind::kGenerate:
      NEXUS_RETURN_IF_ERROR(Generate());
      break;
  }
  trace_.step_hashes.push_back(step_hash_);
  ++next_;
  return Status::Ok();
}

ScriptTrace ScriptRunner::Finish() {
  trace_.logits_sha256 = sha256_.Finish();
  return std::move(trace_);
}

}  // namespace nexus::engine
