// The tier that `auto` takes when a profile is there: what was measured
// decides, and what wasn't is prefilled.
#include <map>
#include <string>

#include "gmock/gmock.h"

#include "nexus/engine/compile_tools.h"
#include "nexus/engine/session.h"
#include "nexus/engine/testing/tiny_engine.h"

namespace nexus::engine {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::SampleConversation;
using testing::SampleTool;
using testing::TinyEngine;

constexpr int kDeepest = 1000;

RepairRow Row(Budget budget, int contexts) {
  RepairRow row;
  row.budget = budget;
  row.max_depth = kDeepest;
  row.contexts = contexts;
  row.top1 = 1;
  row.n = 8;
  return row;
}

class SessionProfileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(tiny_, TinyEngine::Create({}));
    RepairProfile profile;
    profile.model = "Tiny";
    profile.made = "2026-12-01";
    profile.fingerprint = engine().fingerprint(kv::BlockKind::kSplice);
    profile.compile_contexts = 2;
    RepairRow strict = Row(Budget::kStrict, 2);
    strict.prefill = true;
    strict.reason = "KL 0.0123 at best";
    RepairRow balanced = Row(Budget::kBalanced, 2);
    balanced.policy = kv::RepairPolicy::kHead;
    balanced.share = 0.5;
    profile.rows = {strict, balanced, Row(Budget::kFast, 2)};
    FileSystem& fs = FileSystem::Default();
    ASSERT_OK(fs.CreateDirs(tiny_->profile_dir()));
    ASSERT_OK(WriteFileAtomically(fs, tiny_->profile_dir() + "/tiny.json",
                                  DumpJson(ProfileToJson(profile))));
    ASSERT_OK(tiny_->Restart());
    ASSERT_NE(engine().profile(), nullptr) << engine().profile_status();
  }

  Engine& engine() { return tiny_->engine(); }

  TierReport Prepare(Budget budget, int contexts, int repeats = 1,
                     kv::BlockStorage storage = {}) {
    // A tool of its own: an earlier block would be found in its place.
    const schema::ToolSchema tool = SampleTool(++tools_);
    CompileToolsOptions compile;
    compile.contexts = contexts;
    compile.storage = storage;
    EXPECT_OK(CompileTools(engine(), {&tool, 1}, compile).status());
    std::vector<llm::ChatMessage> messages =
        SampleConversation("Is the quay free at noon?");
    // The last turn stands behind the schema, the first before it.
    for (int i = 1; i < repeats; ++i) {
      messages[0].content += " And the day after, until the evening?";
    }
    auto plan = engine().planner().PlanCall(messages, {&tool, 1},
                                            ArgumentMode::kSchema, tool.name);
    EXPECT_OK(plan.status());
    auto session = Session::Create(&engine());
    EXPECT_OK(session.status());
    PrepareOptions options;
    options.budget = budget;
    auto report = (*session)->Prepare(*plan, options);
    EXPECT_OK(report.status());
    return *report;
  }

  std::unique_ptr<TinyEngine> tiny_;
  int tools_ = 0;
};

TEST_F(SessionProfileTest, TheBudgetsRowIsFollowed) {
  const TierReport fast = Prepare(Budget::kFast, 2);
  EXPECT_EQ(fast.tier, Tier::kSplice) << ::testing::PrintToString(fast.reasons);
  EXPECT_EQ(fast.policy, "none");
  EXPECT_EQ(fast.recomputed_tokens, 0);

  const TierReport balanced = Prepare(Budget::kBalanced, 2);
  EXPECT_EQ(balanced.tier, Tier::kSplice);
  EXPECT_EQ(balanced.policy, "head");
  EXPECT_NEAR(balanced.recomputed_tokens, balanced.spliced_tokens, 16);
}

TEST_F(SessionProfileTest, ARowThatKeepsNoBudgetIsPrefilledWithItsReason) {
  const TierReport strict = Prepare(Budget::kStrict, 2);
  EXPECT_EQ(strict.tier, Tier::kPrefill);
  EXPECT_THAT(strict.reasons, Contains(HasSubstr("KL 0.0123 at best")));
}

// Young blocks, as traffic teaches them, under every budget: none was measured.
TEST_F(SessionProfileTest, ABlockOfFewerContextsIsPrefilledUnderEveryBudget) {
  for (const Budget budget :
       {Budget::kStrict, Budget::kBalanced, Budget::kFast}) {
    const TierReport report = Prepare(budget, 1);
    EXPECT_EQ(report.tier, Tier::kPrefill) << BudgetName(budget);
    EXPECT_THAT(report.reasons, Contains(HasSubstr("2 contexts or more")));
  }
  EXPECT_EQ(Prepare(Budget::kFast, 3).tier, Tier::kSplice);
}

TEST_F(SessionProfileTest, ABlockInFewerBitsIsPrefilled) {
  const TierReport report =
      Prepare(Budget::kFast, 2, 1, {kv::RowStorage::kQ8, kv::RowStorage::kQ8});
  EXPECT_EQ(report.tier, Tier::kPrefill);
  EXPECT_THAT(report.reasons, Contains(HasSubstr("stored as q8")));
}

TEST_F(SessionProfileTest, DeeperThanWasMeasuredIsPrefilled) {
  const TierReport report = Prepare(Budget::kFast, 2, 60);
  EXPECT_EQ(report.tier, Tier::kPrefill);
  EXPECT_THAT(report.reasons, Contains(HasSubstr("up to depth 1000")));
}

}  // namespace
}  // namespace nexus::engine
