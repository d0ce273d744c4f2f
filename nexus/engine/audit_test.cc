#include "nexus/engine/audit.h"

#include <vector>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/engine/compile_tools.h"
#include "nexus/engine/testing/tiny_engine.h"

namespace nexus::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

AuditReport Found(double kl, double top1, int positions) {
  AuditReport report;
  report.kl_mean = kl;
  report.top1 = top1;
  report.positions = positions;
  return report;
}

TEST(AuditTallyTest, PoolsPositions) {
  AuditTally tally;
  tally.Add(Found(0.1, 1, 10));
  tally.Add(Found(0.2, 0.5, 30));
  EXPECT_DOUBLE_EQ(tally.KlMean(), 0.175);
  EXPECT_DOUBLE_EQ(tally.Top1(), 0.625);
  EXPECT_EQ(tally.audits, 2);
}

TEST(AuditTallyTest, FewPositionsAreJudgedOnlyWhenFarBeyond) {
  const BudgetLimits limits = {.kl_mean = 0.003, .top1 = 0.99};
  AuditTally tally;
  tally.Add(Found(0.01, 0.9, 20));
  EXPECT_FALSE(BreaksBudget(tally, limits));
  AuditTally far;
  far.Add(Found(0.05, 1, 20));
  EXPECT_TRUE(BreaksBudget(far, limits));
}

TEST(AuditTallyTest, ManyPositionsAreJudgedByBothLimits) {
  const BudgetLimits limits = {.kl_mean = 0.003, .top1 = 0.99};
  for (const auto& [kl, top1, breaks] :
       std::vector<std::tuple<double, double, bool>>{
           {0.002, 1, false}, {0.004, 1, true}, {0.002, 0.98, true}}) {
    AuditTally tally;
    tally.Add(Found(kl, top1, kJudgedPositions));
    EXPECT_EQ(BreaksBudget(tally, limits), breaks) << kl << " " << top1;
  }
}

TEST(AuditTallyTest, SurvivesTheStoreAndItsDamage) {
  AuditTally tally;
  tally.Add(Found(0.25, 0.5, 8));
  const AuditTally back = TallyFromText(DumpJson(TallyToJson(tally)));
  EXPECT_EQ(back.positions, 8);
  EXPECT_DOUBLE_EQ(back.KlMean(), 0.25);
  for (const char* damaged : {"", "{", "[]", "{\"audits\": \"x\"}"}) {
    EXPECT_EQ(TallyFromText(damaged).positions, 0) << damaged;
  }
}

class AuditTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(tiny_, testing::TinyEngine::Create({}));
    tool_ = testing::SampleTool();
    ASSERT_OK(CompileTools(tiny_->engine(), {&tool_, 1}, {}).status());
    ASSERT_OK_AND_ASSIGN(plan_,
                         tiny_->engine().planner().PlanCall(
                             testing::SampleConversation("A berth for the Ida"),
                             {&tool_, 1}, ArgumentMode::kSchema, tool_.name));
    ASSERT_OK_AND_ASSIGN(session_, Session::Create(&tiny_->engine()));
    options_.tier = Tier::kSplice;
    options_.policy = kv::RepairPolicy::kNone;
    // The limit is twice the noise floor, which without a profile is 0: every
    // splice breaks it.
    options_.budget = Budget::kStrict;
  }

  AuditRequest Request(const TierReport& tier) {
    AuditRequest request =
        AuditRequestFor(*session_, plan_, tier, options_.budget);
    request.generated = {5, 6, 7, 8};
    return request;
  }
  Result<AuditReport> Audit() {
    NEXUS_ASSIGN_OR_RETURN(const TierReport tier, Splice());
    return AuditSplice(tiny_->engine(), Request(tier));
  }

  // A text prefill of the plan, folded into its block.
  void LearnOnce() {
    ASSERT_OK(session_->TruncateTo(0));
    ASSERT_OK(session_->Prepare(plan_, {.tier = Tier::kPrefill}).status());
    ASSERT_OK_AND_ASSIGN(const compile::LearnReport learned,
                         session_->Learn(plan_, tool_));
    ASSERT_GT(learned.samples, 0) << learned.reason;
  }

  Result<TierReport> Splice() { return session_->Prepare(plan_, options_); }

  kv::BlockKey Key() { return tiny_->engine().SchemaKey(plan_.block); }

  std::unique_ptr<testing::TinyEngine> tiny_;
  schema::ToolSchema tool_;
  PromptPlan plan_;
  std::unique_ptr<Session> session_;
  PrepareOptions options_;
};

TEST_F(AuditTest, ABrokenBudgetDemotesTheBlockUntilItIsLifted) {
  ASSERT_OK_AND_ASSIGN(const AuditReport report, Audit());
  EXPECT_EQ(report.positions, 4);
  EXPECT_GT(report.kl_mean, 0);
  EXPECT_TRUE(report.broke_budget);

  ASSERT_OK_AND_ASSIGN(const TierReport after, Splice());
  EXPECT_EQ(after.tier, Tier::kPrefill);
  ASSERT_FALSE(after.reasons.empty());
  EXPECT_THAT(after.reasons.front(), HasSubstr("demoted"));

  ASSERT_OK(ClearDemotion(*tiny_->engine().store(), Key()));
  ASSERT_OK(session_->TruncateTo(0));
  ASSERT_OK_AND_ASSIGN(const TierReport lifted, Splice());
  EXPECT_EQ(lifted.tier, Tier::kSplice);
}

TEST_F(AuditTest, CompilingAnewLiftsADemotion) {
  ASSERT_OK(Audit().status());
  EXPECT_FALSE(CheckDemotion(*tiny_->engine().store(), Key()).ok());
  ASSERT_OK(
      CompileTools(tiny_->engine(), {&tool_, 1}, {.recompile = true}).status());
  EXPECT_OK(CheckDemotion(*tiny_->engine().store(), Key()));
}

// The demoted schema's best block may be one that no compile run would touch.
TEST_F(AuditTest, CompilingAnewLiftsTheDemotionOfALearnedBlock) {
  ASSERT_OK(tiny_->engine().store()->Remove(
      tiny_->engine().SpliceKey(plan_.block, kDefaultCompileContexts)));
  LearnOnce();
  ASSERT_OK(Audit().status());
  ASSERT_FALSE(CheckDemotion(*tiny_->engine().store(), Key()).ok());
  ASSERT_OK(
      CompileTools(tiny_->engine(), {&tool_, 1}, {.recompile = true}).status());
  EXPECT_OK(CheckDemotion(*tiny_->engine().store(), Key()));
}

TEST_F(AuditTest, LearningAsManySamplesAgainLiftsADemotion) {
  ASSERT_OK(Audit().status());
  for (int i = 1; i < kDefaultCompileContexts; ++i) LearnOnce();
  EXPECT_FALSE(CheckDemotion(*tiny_->engine().store(), Key()).ok());
  LearnOnce();
  EXPECT_OK(CheckDemotion(*tiny_->engine().store(), Key()));
}

TEST_F(AuditTest, AFullRedecodeKeepsAnyBudget) {
  // Nothing of the block is left as spliced, so both runs are prefills.
  options_.policy = kv::RepairPolicy::kHead;
  options_.recompute_share = 0.99;
  options_.budget = Budget::kFast;
  ASSERT_OK_AND_ASSIGN(const AuditReport report, Audit());
  EXPECT_FALSE(report.broke_budget);
  EXPECT_OK(CheckDemotion(*tiny_->engine().store(), Key()));
}

TEST_F(AuditTest, SeveralDemotedBlocksDemoteTheModel) {
  kv::BlockStore& store = *tiny_->engine().store();
  for (int seed = 1; seed <= 3; ++seed) {
    const schema::ToolSchema tool = testing::SampleTool(seed);
    ASSERT_OK(CompileTools(tiny_->engine(), {&tool, 1}, {}).status());
    ASSERT_OK_AND_ASSIGN(plan_.block, tiny_->engine().planner().BlockTokens(
                                          {&tool, 1}, ArgumentMode::kSchema));
    ASSERT_OK(Audit().status());
  }
  ASSERT_OK_AND_ASSIGN(plan_.block, tiny_->engine().planner().BlockTokens(
                                        {&tool_, 1}, ArgumentMode::kSchema));
  const Status status = CheckDemotion(store, Key());
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("3 schemas of this model"));
}

TEST_F(AuditTest, ABlockThatWasEvictedSinceIsStillAudited) {
  ASSERT_OK_AND_ASSIGN(const TierReport tier, Splice());
  ASSERT_OK(tiny_->engine().store()->Remove(
      tiny_->engine().SpliceKey(plan_.block, kDefaultCompileContexts)));
  ASSERT_OK_AND_ASSIGN(const AuditReport report,
                       AuditSplice(tiny_->engine(), Request(tier)));
  EXPECT_GT(report.kl_mean, 0);
}

TEST_F(AuditTest, SplicesFromTheConversationAreAudited) {
  ASSERT_OK(session_->Prepare(plan_, {.tier = Tier::kPrefill}).status());
  ASSERT_OK(session_->Remember(plan_, tool_).status());
  std::vector<llm::ChatMessage> messages =
      testing::SampleConversation("A berth for the Ida");
  messages.push_back({.role = "assistant", .content = "Berth nine."});
  messages.push_back({.role = "user", .content = "And one for the Marie."});
  ASSERT_OK_AND_ASSIGN(
      plan_, tiny_->engine().planner().PlanCall(
                 messages, {&tool_, 1}, ArgumentMode::kSchema, tool_.name));
  ASSERT_OK_AND_ASSIGN(const TierReport tier, Splice());
  ASSERT_GT(tier.shared_history, 0);
  ASSERT_OK_AND_ASSIGN(const AuditReport report,
                       AuditSplice(tiny_->engine(), Request(tier)));
  EXPECT_GT(report.kl_mean, 0);
  EXPECT_FALSE(CheckDemotion(*tiny_->engine().store(), Key()).ok());
}

TEST_F(AuditTest, OnlyASpliceWithAnAnswerIsAudited) {
  ASSERT_OK_AND_ASSIGN(const TierReport spliced, Splice());
  AuditRequest request = Request(spliced);
  request.generated.clear();
  EXPECT_EQ(AuditSplice(tiny_->engine(), request).status().code(),
            StatusCode::kInvalidArgument);
  ASSERT_OK_AND_ASSIGN(const TierReport prefilled,
                       session_->Prepare(plan_, {.tier = Tier::kPrefill}));
  EXPECT_EQ(AuditSplice(tiny_->engine(), Request(prefilled)).status().code(),
            StatusCode::kInvalidArgument);
}

TEST_F(AuditTest, CancellingItsContextEndsIt) {
  ASSERT_OK_AND_ASSIGN(const TierReport tier, Splice());
  AuditRequest request = Request(tier);
  std::vector<bool> told;
  request.on_context = [&](llm::Context* context) {
    told.push_back(context != nullptr);
    if (context != nullptr) context->Cancel();
  };
  EXPECT_EQ(AuditSplice(tiny_->engine(), request).status().code(),
            StatusCode::kCancelled);
  EXPECT_THAT(told, ElementsAre(true, false));
  EXPECT_OK(CheckDemotion(*tiny_->engine().store(), Key()));
}

TEST_F(AuditTest, OneSplicedAnswerInNIsDue) {
  kv::BlockStore& store = *tiny_->engine().store();
  TierReport spliced;
  spliced.tier = Tier::kSplice;
  std::vector<bool> due;
  for (int i = 0; i < 6; ++i) {
    EXPECT_FALSE(CountTowardsAudit(store, TierReport(), 3));
    EXPECT_FALSE(CountTowardsAudit(store, spliced, 0));
    due.push_back(CountTowardsAudit(store, spliced, 3));
  }
  EXPECT_THAT(due, ElementsAre(false, false, true, false, false, true));
}

}  // namespace
}  // namespace nexus::engine
