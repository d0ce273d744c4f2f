#include "nexus/engine/argument_runner.h"

#include <utility>
#include <vector>

#include "nexus/base/clock.h"
#include "nexus/base/hash.h"
#include "nexus/engine/compose_call.h"

namespace nexus::engine {
namespace {

using eval::ArgumentForm;
using eval::ArgumentTrial;

constexpr int kTrialVersion = 1;

std::vector<llm::ChatMessage> Messages(const std::string& question) {
  return {{.role = "user", .content = question}};
}

// Faults of the question or the tool, not of the machine.
bool IsRefusal(const Status& status) {
  return status.code() == StatusCode::kResourceExhausted ||
         status.code() == StatusCode::kInvalidArgument ||
         status.code() == StatusCode::kUnimplemented;
}

void Refuse(const Status& why, ArgumentTrial* trial) {
  trial->refused = true;
  trial->schema_valid = false;
  trial->arguments = nullptr;
  trial->invalid_reason = why.message();
}

void TakeCall(GeneratedCall call, ArgumentTrial* trial) {
  trial->arguments = std::move(call.arguments);
  trial->schema_valid = call.valid;
  trial->invalid_reason = std::move(call.invalid_reason);
  trial->sampled_tokens = call.sampled_tokens;
  trial->repair_rounds = call.repair_rounds;
}

}  // namespace

Json ArgumentStudyIdentity(const Engine& engine) {
  return {{"argument_trial_version", kTrialVersion},
          {"model", ToHex(engine.fingerprint(kv::BlockKind::kSplice).Digest())},
          {"flash_attention", engine.attention().flash_attention},
          {"context_tokens", engine.options().context_tokens}};
}

Result<ArgumentLog> OpenArgumentLog(FileSystem& fs, const std::string& path,
                                    const Engine& engine) {
  return ArgumentLog::Open(fs, path, ArgumentStudyIdentity(engine),
                           "evaluation");
}

Result<std::unique_ptr<ArgumentRunner>> ArgumentRunner::Create(
    const Engine* engine, ArgumentLog* log, int max_tokens) {
  std::unique_ptr<ArgumentRunner> runner(new ArgumentRunner());
  runner->engine_ = engine;
  runner->log_ = log;
  runner->max_tokens_ = max_tokens;
  runner->generator_ = std::make_unique<CallGenerator>(&engine->model());
  NEXUS_ASSIGN_OR_RETURN(runner->session_, Session::Create(engine));
  return runner;
}

std::optional<ArgumentTrial> ArgumentRunner::Find(const std::string& key) {
  const ArgumentTrial* known = log_->Find(key);
  was_known_ = known != nullptr;
  if (!was_known_) return std::nullopt;
  return *known;
}

Result<ArgumentTrial> ArgumentRunner::Keep(ArgumentTrial trial) {
  NEXUS_RETURN_IF_ERROR(log_->Append(trial));
  return trial;
}

std::string ArgumentRunner::KeyOf(const PromptPlan& plan,
                                  const std::string& kind,
                                  const std::string& tools) const {
  Sha256 hash;
  hash.Update(kind + "|" + std::to_string(max_tokens_) + "|" + tools + "|");
  const std::vector<llm::Token> tokens = AllTokens(plan);
  hash.Update(tokens.data(), tokens.size() * sizeof(llm::Token));
  return ToHex(hash.Finish()).substr(0, 32);
}

Result<ArgumentTrial> ArgumentRunner::Run(const schema::ToolSchema& tool,
                                          const std::string& question,
                                          ArgumentForm form) {
  const auto start = Clock::Monotonic().Now();
  const std::vector<llm::ChatMessage> messages = Messages(question);
  auto plan = engine_->planner().PlanCall(
      messages, {&tool, 1},
      form == ArgumentForm::kIr ? ArgumentMode::kIr : ArgumentMode::kSchema,
      tool.name);
  ArgumentTrial trial;
  std::string kind(eval::ArgumentFormName(form));
  if (!plan.ok()) {
    if (!IsRefusal(plan.status())) return plan.status();
    trial.key = KeyOf({}, kind + "|" + question, schema::ToolId(tool));
    if (auto known = Find(trial.key)) return *std::move(known);
    Refuse(plan.status(), &trial);
    return Keep(std::move(trial));
  }
  if (form == ArgumentForm::kSchema) {
    // Another block is another call.
    const auto block = engine_->FindSplice(plan->block);
    if (block.ok()) {
      kind += "|" + std::to_string((*block)->metadata().context_count);
    }
  }
  trial.key = KeyOf(*plan, kind, ToHex(schema::SchemaHash(tool)));
  if (auto known = Find(trial.key)) return *std::move(known);
  trial.prompt_tokens = static_cast<int>(plan->TokenCount());
  trial.tool_tokens = static_cast<int>(plan->block.size());
  const Status status = Generate(tool, *plan, form, start, &trial);
  if (!status.ok()) {
    if (!IsRefusal(status)) return status;
    Refuse(status, &trial);
  }
  return Keep(std::move(trial));
}

Status ArgumentRunner::Generate(const schema::ToolSchema& tool,
                                const PromptPlan& plan, ArgumentForm form,
                                std::chrono::nanoseconds started,
                                ArgumentTrial* trial) {
  // The conversation stays, as it would; what another form of the same tool
  // left behind must not help this one.
  if (session_->tokens().size() > plan.history.size()) {
    NEXUS_RETURN_IF_ERROR(session_->TruncateTo(plan.history.size()));
  }
  const Tier tier =
      form == ArgumentForm::kSchema ? Tier::kAuto : Tier::kPrefill;
  NEXUS_ASSIGN_OR_RETURN(const TierReport report,
                         session_->Prepare(plan, {.tier = tier}));
  trial->tier = std::string(TierName(report.tier));
  NEXUS_ASSIGN_OR_RETURN(
      GeneratedCall call,
      generator_->Generate(*session_, plan, engine_->planner(), tool,
                           {.max_tokens = max_tokens_}));
  trial->ttft_ms = Milliseconds(call.first_token_at - started);
  TakeCall(std::move(call), trial);
  return Status::Ok();
}

Result<int> ArgumentRunner::CountListTokens(
    std::span<const schema::ToolSchema> tools,
    const std::string& question) const {
  NEXUS_ASSIGN_OR_RETURN(
      const PromptPlan plan,
      engine_->planner().PlanList(Messages(question), tools, {}));
  return static_cast<int>(plan.TokenCount());
}

Result<ArgumentTrial> ArgumentRunner::RunList(
    std::span<const schema::ToolSchema> tools, const std::string& question) {
  const auto start = Clock::Monotonic().Now();
  NEXUS_ASSIGN_OR_RETURN(
      const PromptPlan plan,
      engine_->planner().PlanList(Messages(question), tools, {}));
  std::string hashes;
  for (const schema::ToolSchema& tool : tools) {
    hashes += ToHex(schema::SchemaHash(tool));
  }
  ArgumentTrial trial;
  trial.key = KeyOf(plan, "list", hashes);
  if (auto known = Find(trial.key)) return *std::move(known);
  trial.list_tools = static_cast<int>(tools.size());
  trial.prompt_tokens = static_cast<int>(plan.TokenCount());
  trial.tool_tokens = static_cast<int>(plan.block.size());
  const Status status = CallOutOfList(tools, question, plan, start, &trial);
  if (!status.ok()) {
    if (!IsRefusal(status)) return status;
    Refuse(status, &trial);
  }
  return Keep(std::move(trial));
}

Status ArgumentRunner::CallOutOfList(std::span<const schema::ToolSchema> tools,
                                     const std::string& question,
                                     const PromptPlan& plan,
                                     std::chrono::nanoseconds started,
                                     ArgumentTrial* trial) {
  NEXUS_ASSIGN_OR_RETURN(const auto caller,
                         ListCaller::Create(engine_, tools, max_tokens_));
  NEXUS_ASSIGN_OR_RETURN(const std::vector<llm::Token> user,
                         engine_->planner().ListTurnTokens(Messages(question)));
  PromptPlan list = plan;
  list.user.clear();
  list.preamble.clear();
  NEXUS_ASSIGN_OR_RETURN(const TierReport report,
                         session_->Prepare(list, {.tier = Tier::kExactPrefix}));
  trial->tier = std::string(TierName(report.tier));
  const size_t list_end = list.TokenCount();
  NEXUS_ASSIGN_OR_RETURN(const std::vector<llm::Token> opening,
                         engine_->planner().CallOpeningTokens());
  std::vector<llm::Token> turn = user;
  turn.insert(turn.end(), opening.begin(), opening.end());
  NEXUS_RETURN_IF_ERROR(session_->Append(turn, llm::Logits::kLast));
  NEXUS_ASSIGN_OR_RETURN(const ListCaller::Choice choice,
                         caller->Choose(*session_, list_end, user));
  trial->list_choice = static_cast<int>(choice.tool);
  PromptPlan chosen;
  chosen.space_before_arguments = choice.space_follows;
  NEXUS_ASSIGN_OR_RETURN(
      GeneratedCall call,
      generator_->Generate(*session_, chosen, engine_->planner(),
                           tools[choice.tool], {.max_tokens = max_tokens_}));
  trial->ttft_ms = Milliseconds(call.first_token_at - started);
  TakeCall(std::move(call), trial);
  return Status::Ok();
}

}  // namespace nexus::engine
