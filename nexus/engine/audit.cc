#include "nexus/engine/audit.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "nexus/engine/fidelity.h"

namespace nexus::engine {
namespace {

// Schemas demoted before their model is.
constexpr int kModelBound = 3;

std::string TallyName(const kv::BlockKey& schema) {
  return "audit:" + ToHex(schema.Digest());
}
std::string DemotedName(const kv::BlockKey& schema) {
  return "demoted:" + ToHex(schema.Digest());
}
std::string SamplesName(const kv::BlockKey& schema) {
  return "demoted-samples:" + ToHex(schema.Digest());
}
std::string ModelName(const kv::BlockKey& schema) {
  return "demoted-schemas:" + ToHex(schema.fingerprint);
}

std::string Verdict(const AuditTally& tally, const BudgetLimits& limits) {
  char text[160];
  std::snprintf(text, sizeof text,
                "%d audits over %d tokens: KL %.4f (budget %.4f), top-1 "
                "%.1f %% (budget %.1f %%)",
                tally.audits, tally.positions, tally.KlMean(), limits.kl_mean,
                100 * tally.Top1(), 100 * limits.top1);
  return text;
}

// What isn't there, or can't be read, is empty.
std::string Setting(kv::BlockStore& store, const std::string& name) {
  auto text = store.GetSetting(name);
  return text.ok() ? std::move(text).value() : std::string();
}

int Number(kv::BlockStore& store, const std::string& name) {
  return std::atoi(Setting(store, name).c_str());
}

Status Demote(kv::BlockStore& store, const kv::BlockKey& schema, int samples,
              const std::string& verdict) {
  if (!Setting(store, DemotedName(schema)).empty()) {
    return Status::Ok();
  }
  NEXUS_RETURN_IF_ERROR(
      store.PutSetting(SamplesName(schema), std::to_string(samples)));
  NEXUS_RETURN_IF_ERROR(store.PutSetting(DemotedName(schema), verdict));
  const int demoted = Number(store, ModelName(schema)) + 1;
  return store.PutSetting(ModelName(schema), std::to_string(demoted));
}

Result<AuditReport> Compare(Session& session, const AuditRequest& request) {
  NEXUS_RETURN_IF_ERROR(
      session.Prepare(request.plan, {.tier = Tier::kPrefill}).status());
  NEXUS_ASSIGN_OR_RETURN(const FidelityReference reference,
                         ReferenceOf(session, request.generated));

  NEXUS_RETURN_IF_ERROR(session.TruncateTo(request.plan.history.size()));
  const StudyInput same = {.block = request.block};
  PrepareOptions options = {.tier = Tier::kSplice};
  options.policy = kv::ParseRepairPolicy(request.tier.policy);
  options.recompute_share = request.tier.recompute_share;
  options.study = &same;
  NEXUS_ASSIGN_OR_RETURN(const TierReport spliced,
                         session.Prepare(request.plan, options));
  if (spliced.tier != Tier::kSplice) {
    return UnavailableError(
        "audit: the splice can't be repeated" +
        (spliced.reasons.empty() ? "" : ": " + spliced.reasons.back()));
  }
  NEXUS_ASSIGN_OR_RETURN(const FidelityStats stats,
                         CompareWithReference(session, reference));
  AuditReport report;
  report.kl_mean = stats.KlMean();
  report.top1 = stats.Top1();
  report.positions = static_cast<int>(stats.kl.size());
  return report;
}

}  // namespace

Json AuditToJson(const AuditReport& report) {
  return {{"kl_mean", report.kl_mean},
          {"top1", report.top1},
          {"positions", report.positions},
          {"demoted", report.broke_budget},
          {"verdict", report.verdict}};
}

void AuditTally::Add(const AuditReport& report) {
  ++audits;
  positions += report.positions;
  kl_sum += report.kl_mean * report.positions;
  top1_sum += report.top1 * report.positions;
}

Json TallyToJson(const AuditTally& tally) {
  return {{"audits", tally.audits},
          {"positions", tally.positions},
          {"kl_sum", tally.kl_sum},
          {"top1_sum", tally.top1_sum}};
}

AuditTally TallyFromText(std::string_view text) {
  const auto json = ParseJson(text, "audit tally");
  if (!json.ok()) return {};
  try {
    return {.audits = json->at("audits").get<int>(),
            .positions = json->at("positions").get<int>(),
            .kl_sum = json->at("kl_sum").get<double>(),
            .top1_sum = json->at("top1_sum").get<double>()};
  } catch (const std::exception&) {
    return {};
  }
}

bool BreaksBudget(const AuditTally& tally, const BudgetLimits& limits) {
  // Ten times the limit over one call is no scatter of a block that keeps it.
  constexpr double kFarBeyond = 10;
  if (tally.positions == 0) return false;
  if (tally.KlMean() > kFarBeyond * limits.kl_mean) return true;
  return tally.positions >= kJudgedPositions &&
         (tally.KlMean() > limits.kl_mean || tally.Top1() < limits.top1);
}

bool CountTowardsAudit(kv::BlockStore& store, const TierReport& tier,
                       int every) {
  if (every <= 0 || tier.tier != Tier::kSplice) return false;
  constexpr const char* kCounter = "answers-since-audit";
  const int count = Number(store, kCounter) + 1;
  const bool due = count >= every;
  const Status kept =
      store.PutSetting(kCounter, std::to_string(due ? 0 : count));
  return due || !kept.ok();
}

AuditRequest AuditRequestFor(const Session& session, const PromptPlan& plan,
                             const TierReport& tier, Budget budget,
                             std::span<const llm::Token> forgotten) {
  // More says little: an answer's later tokens follow from its first.
  constexpr size_t kCompared = 64;
  const auto tokens = session.tokens();
  const auto behind =
      tokens.subspan(std::min(tokens.size(), plan.TokenCount()));
  std::vector<llm::Token> answer(behind.begin(), behind.end());
  answer.insert(answer.end(), forgotten.begin(), forgotten.end());
  answer.resize(std::min(answer.size(), kCompared));
  return {.plan = plan,
          .tier = tier,
          .block = session.spliced_block(),
          .generated = std::move(answer),
          .budget = budget};
}

Result<AuditReport> AuditSplice(const Engine& engine,
                                const AuditRequest& request) {
  if (request.generated.empty()) {
    return InvalidArgumentError("audit: the answer has no tokens to compare");
  }
  if (request.block == nullptr) {
    return InvalidArgumentError("audit: the answer wasn't spliced");
  }
  NEXUS_RETURN_IF_ERROR(engine.store_status());
  const int cells =
      static_cast<int>(request.plan.TokenCount() + request.generated.size()) +
      64;
  NEXUS_ASSIGN_OR_RETURN(auto session, Session::Create(&engine, cells));
  if (request.on_context) request.on_context(&session->context());
  Result<AuditReport> compared = Compare(*session, request);
  if (request.on_context) request.on_context(nullptr);
  NEXUS_RETURN_IF_ERROR(compared.status());
  AuditReport report = *std::move(compared);

  kv::BlockStore& store = *engine.store();
  const kv::BlockKey schema = engine.SchemaKey(request.plan.block);
  const std::string name = TallyName(schema);
  AuditTally tally = TallyFromText(Setting(store, name));
  tally.Add(report);
  NEXUS_RETURN_IF_ERROR(store.PutSetting(name, DumpJson(TallyToJson(tally))));
  const double noise =
      engine.profile() != nullptr ? engine.profile()->noise_kl : 0;
  const BudgetLimits limits = LimitsOf(request.budget, noise);
  report.broke_budget = BreaksBudget(tally, limits);
  report.verdict = Verdict(tally, limits);
  if (report.broke_budget) {
    NEXUS_RETURN_IF_ERROR(
        Demote(store, schema, request.tier.block_samples, report.verdict));
  }
  return report;
}

Status CheckDemotion(kv::BlockStore& store, const kv::BlockKey& schema) {
  const std::string verdict = Setting(store, DemotedName(schema));
  if (!verdict.empty()) {
    return UnimplementedError("splice: the schema was demoted by " + verdict +
                              "; `nexus compile --recompile` lifts it");
  }
  const int demoted = Number(store, ModelName(schema));
  if (demoted >= kModelBound) {
    return UnimplementedError(
        "splice: audits demoted " + std::to_string(demoted) +
        " schemas of this model, so none is spliced; `nexus compile "
        "--recompile` of their tools lifts it");
  }
  return Status::Ok();
}

Status ClearDemotion(kv::BlockStore& store, const kv::BlockKey& schema) {
  NEXUS_RETURN_IF_ERROR(store.PutSetting(TallyName(schema), ""));
  if (Setting(store, DemotedName(schema)).empty()) {
    return Status::Ok();
  }
  NEXUS_RETURN_IF_ERROR(store.PutSetting(DemotedName(schema), ""));
  const int demoted = Number(store, ModelName(schema));
  return store.PutSetting(ModelName(schema),
                          std::to_string(std::max(0, demoted - 1)));
}

Status LiftDemotionIfLearned(kv::BlockStore& store, const kv::BlockKey& schema,
                             int samples) {
  if (Setting(store, DemotedName(schema)).empty() ||
      samples < 2 * std::max(1, Number(store, SamplesName(schema)))) {
    return Status::Ok();
  }
  return ClearDemotion(store, schema);
}

}  // namespace nexus::engine
