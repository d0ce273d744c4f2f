#include "nexus/engine/session.h"

#include <cstring>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"

#include "nexus/engine/compile_tools.h"
#include "nexus/engine/testing/tiny_engine.h"
#include "nexus/llm/testing/kv_test_util.h"

namespace nexus::engine {
namespace {

using llm::testing::LargestDifference;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::SampleConversation;
using testing::SampleTool;
using testing::TinyEngine;

constexpr Tier kAllTiers[] = {Tier::kExactPrefix, Tier::kExactVariant,
                              Tier::kSplice, Tier::kPrefill};

std::vector<float> Copy(std::span<const float> row) {
  return {row.begin(), row.end()};
}

// Both V layouts (without flash attention V is transposed) and both RoPE
// layouts.
struct Setting {
  llm::testing::TinyArch arch;
  bool flash_attention;
};

class SessionTest : public ::testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    TinyEngine::Options options;
    options.model.arch = GetParam().arch;
    options.flash_attention = GetParam().flash_attention;
    auto tiny = TinyEngine::Create(options);
    ASSERT_TRUE(tiny.ok()) << tiny.status();
    tiny_ = std::move(tiny).value();
  }

  Engine& engine() { return tiny_->engine(); }

  Result<PromptPlan> Plan(const std::string& question = "Book it, please.") {
    const schema::ToolSchema tool = SampleTool();
    return engine().planner().PlanCall(SampleConversation(question), {&tool, 1},
                                       ArgumentMode::kSchema, tool.name);
  }

  Status Compile(int contexts = 2) {
    const schema::ToolSchema tool = SampleTool();
    return CompileTools(engine(), {&tool, 1}, {.contexts = contexts}).status();
  }

  std::unique_ptr<TinyEngine> tiny_;
};

TEST_P(SessionTest, PrefillDecodesEveryTokenOfThePlan) {
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan());
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&engine()));
  ASSERT_OK_AND_ASSIGN(const TierReport report,
                       session->Prepare(plan, {.tier = Tier::kPrefill}));
  EXPECT_EQ(report.tier, Tier::kPrefill);
  EXPECT_EQ(report.prefilled_tokens, static_cast<int>(plan.TokenCount()));
  EXPECT_EQ(session->tokens().size(), plan.TokenCount());
  EXPECT_EQ(session->exact_count(), plan.TokenCount());
}

TEST_P(SessionTest, AutoWithoutABlockPrefillsAndSaysWhy) {
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan());
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&engine()));
  ASSERT_OK_AND_ASSIGN(const TierReport report, session->Prepare(plan, {}));
  EXPECT_EQ(report.tier, Tier::kPrefill);
  EXPECT_THAT(report.reasons, Contains(HasSubstr("nexus compile")));
}

TEST_P(SessionTest, ASecondTurnReusesTheExactPrefixAndGivesTheSameLogits) {
  ASSERT_OK_AND_ASSIGN(const PromptPlan first, Plan("Book it, please."));
  ASSERT_OK_AND_ASSIGN(const PromptPlan second,
                       Plan("Book it for two nights."));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&engine()));
  ASSERT_OK(session->Prepare(first, {}));
  ASSERT_OK_AND_ASSIGN(const TierReport report, session->Prepare(second, {}));
  EXPECT_EQ(report.tier, Tier::kExactPrefix);
  EXPECT_GE(report.reused_tokens,
            static_cast<int>(second.history.size() + second.block.size()));
  const std::vector<float> reused = Copy(session->logits());

  // The same cells in the same order, decoded in the same pieces, are the same
  // bits.
  ASSERT_OK_AND_ASSIGN(auto fresh, Session::Create(&engine()));
  ASSERT_OK(fresh->Prepare(first, {.tier = Tier::kPrefill}));
  ASSERT_OK(fresh->TruncateTo(static_cast<size_t>(report.reused_tokens)));
  ASSERT_OK(fresh->Prepare(second, {.tier = Tier::kExactPrefix}));
  EXPECT_EQ(reused, Copy(fresh->logits()));
}

TEST_P(SessionTest, SpliceKeepsTheLogitsNearThoseOfPrefill) {
  ASSERT_OK(Compile());
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan());
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&engine()));
  ASSERT_OK(session->Prepare(plan, {.tier = Tier::kPrefill}));
  const std::vector<float> reference = Copy(session->logits());
  double spread = 0;
  for (const float logit : reference) {
    spread = std::max(spread, std::abs(static_cast<double>(logit)));
  }

  ASSERT_OK_AND_ASSIGN(auto spliced, Session::Create(&engine()));
  ASSERT_OK_AND_ASSIGN(const TierReport report, spliced->Prepare(plan, {}));
  EXPECT_EQ(report.tier, Tier::kSplice)
      << ::testing::PrintToString(report.reasons);
  EXPECT_EQ(report.spliced_tokens + report.recomputed_tokens,
            static_cast<int>(plan.block.size()));
  EXPECT_EQ(report.reused_tokens + report.restored_tokens +
                report.spliced_tokens + report.recomputed_tokens +
                report.prefilled_tokens,
            static_cast<int>(plan.TokenCount()));
  // Random weights drift more than trained ones; a wrong rotation or a swapped
  // row would be of the order of the logits themselves.
  EXPECT_LT(LargestDifference(reference, Copy(spliced->logits())), spread / 2);
  // Nothing behind a spliced block is exact.
  EXPECT_EQ(spliced->exact_count(), plan.history.size());
}

TEST_P(SessionTest, ASplicedTurnIsNotReportedAsExactOnTheNextTurn) {
  ASSERT_OK(Compile());
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan());
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&engine()));
  ASSERT_OK(session->Prepare(plan, {.tier = Tier::kSplice}));
  ASSERT_OK_AND_ASSIGN(const TierReport again, session->Prepare(plan, {}));
  EXPECT_EQ(again.tier, Tier::kSplice);
  EXPECT_LE(again.reused_tokens, static_cast<int>(plan.history.size()));
}

TEST_P(SessionTest, AStoredVariantRestoresTheVeryBits) {
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan());
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&engine()));
  // History first, then block and tail: the pieces in which the restored
  // session will decode what it decodes.
  ASSERT_OK(session->Append(plan.history, llm::Logits::kNone));
  ASSERT_OK(session->Append(plan.block, llm::Logits::kNone));
  ASSERT_OK(session->Prepare(plan, {}));
  const std::vector<float> original = Copy(session->logits());
  ASSERT_OK(session->StoreVariant(plan, SampleTool()));

  ASSERT_OK(tiny_->Restart());
  ASSERT_OK_AND_ASSIGN(auto restored, Session::Create(&engine()));
  ASSERT_OK_AND_ASSIGN(const TierReport report, restored->Prepare(plan, {}));
  EXPECT_EQ(report.tier, Tier::kExactVariant)
      << ::testing::PrintToString(report.reasons);
  EXPECT_EQ(report.restored_tokens, static_cast<int>(plan.block.size()));
  EXPECT_EQ(restored->exact_count(), plan.TokenCount());
  EXPECT_EQ(original, Copy(restored->logits()));
}

TEST_P(SessionTest, AVariantOfAnotherConversationIsNotUsed) {
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan());
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&engine()));
  ASSERT_OK(session->Prepare(plan, {}));
  ASSERT_OK(session->StoreVariant(plan, SampleTool()));

  const schema::ToolSchema tool = SampleTool();
  const std::vector<llm::ChatMessage> other = {
      {.role = "user", .content = "A different beginning."},
      {.role = "assistant", .content = "Indeed."},
      {.role = "user", .content = "Book it, please."}};
  ASSERT_OK_AND_ASSIGN(
      const PromptPlan elsewhere,
      engine().planner().PlanCall(other, {&tool, 1}, ArgumentMode::kSchema,
                                  tool.name));
  ASSERT_OK_AND_ASSIGN(auto fresh, Session::Create(&engine()));
  ASSERT_OK_AND_ASSIGN(
      const TierReport report,
      fresh->Prepare(elsewhere, {.tier = Tier::kExactVariant}));
  EXPECT_EQ(report.tier, Tier::kPrefill);
}

TEST_P(SessionTest, DeepInTheContextThePapersCurveBecomesPrefillWithAReason) {
  ASSERT_OK(Compile());
  const schema::ToolSchema tool = SampleTool();
  const std::vector<llm::ChatMessage> deep = {
      {.role = "user", .content = std::string(2100, 'a')},
      {.role = "assistant", .content = "A long one."},
      {.role = "user", .content = "Book it."}};
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan,
                       engine().planner().PlanCall(
                           deep, {&tool, 1}, ArgumentMode::kSchema, tool.name));
  ASSERT_GT(plan.history.size(), 2048U);
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&engine()));
  ASSERT_OK_AND_ASSIGN(const TierReport report, session->Prepare(plan, {}));
  EXPECT_EQ(report.tier, Tier::kPrefill);
  EXPECT_THAT(report.reasons, Contains(HasSubstr("re-decodes everything")));
}

TEST_P(SessionTest, EveryTierLeavesTheSameTokensInTheContext) {
  ASSERT_OK(Compile());
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan());
  std::vector<llm::Token> expected;
  for (const auto* part :
       {&plan.history, &plan.block, &plan.user, &plan.preamble}) {
    expected.insert(expected.end(), part->begin(), part->end());
  }
  ASSERT_OK_AND_ASSIGN(auto first, Session::Create(&engine()));
  ASSERT_OK(first->Prepare(plan, {.tier = Tier::kPrefill}));
  ASSERT_OK(first->StoreVariant(plan, SampleTool()));
  for (const Tier tier : kAllTiers) {
    ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&engine()));
    if (tier == Tier::kExactPrefix) {
      ASSERT_OK(session->Prepare(plan, {.tier = Tier::kPrefill}));
    }
    ASSERT_OK_AND_ASSIGN(const TierReport report,
                         session->Prepare(plan, {.tier = tier}));
    EXPECT_EQ(report.tier, tier) << ::testing::PrintToString(report.reasons);
    const std::span<const llm::Token> tokens = session->tokens();
    EXPECT_EQ(std::vector<llm::Token>(tokens.begin(), tokens.end()), expected)
        << TierName(tier);
  }
}

// Blocks of one frame all begin with the same tokens.
TEST_P(SessionTest, ABlockHeldOnlyInPartIsSplicedFromItsBeginning) {
  const schema::ToolSchema other = SampleTool(1);
  ASSERT_OK(CompileTools(engine(), {&other, 1}, {.contexts = 2}));
  ASSERT_OK_AND_ASSIGN(const PromptPlan first, Plan());
  ASSERT_OK_AND_ASSIGN(const PromptPlan second,
                       engine().planner().PlanCall(
                           SampleConversation("Book it, please."), {&other, 1},
                           ArgumentMode::kSchema, other.name));
  ASSERT_EQ(first.block.front(), second.block.front());
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&engine()));
  ASSERT_OK(session->Prepare(first, {}));
  ASSERT_OK_AND_ASSIGN(const TierReport report, session->Prepare(second, {}));
  EXPECT_EQ(report.tier, Tier::kSplice)
      << ::testing::PrintToString(report.reasons);
  EXPECT_EQ(report.reused_tokens, static_cast<int>(second.history.size()));
}

TEST_P(SessionTest, CompilingAgainMendsADamagedBlock) {
  ASSERT_OK(Compile());
  for (const auto& entry :
       std::filesystem::directory_iterator(tiny_->store_dir())) {
    if (entry.path().extension() != ".nxb") continue;
    std::filesystem::resize_file(entry.path(), entry.file_size() - 1);
  }
  const schema::ToolSchema tool = SampleTool();
  ASSERT_OK(tiny_->Restart());
  ASSERT_OK_AND_ASSIGN(const compile::CompileReport report,
                       CompileTools(engine(), {&tool, 1}, {.contexts = 2}));
  EXPECT_EQ(report.compiled, 1);
  EXPECT_EQ(report.already_present, 0);
}

TEST_P(SessionTest, ADamagedBlockIsSetAsideAndTheTextPrefilled) {
  ASSERT_OK(Compile());
  int damaged = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(tiny_->store_dir())) {
    if (entry.path().extension() != ".nxb") continue;
    std::fstream file(entry.path(),
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(entry.file_size() / 2));
    file.put('\x5A');
    file.put('\xA5');
    ++damaged;
  }
  ASSERT_GT(damaged, 0);
  ASSERT_OK(tiny_->Restart());
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan());
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&engine()));
  ASSERT_OK_AND_ASSIGN(const TierReport report, session->Prepare(plan, {}));
  EXPECT_EQ(report.tier, Tier::kPrefill);
  EXPECT_THAT(report.reasons, Contains(HasSubstr(".nxb")));
  // It is compiled again as if it had never been.
  ASSERT_OK(Compile());
  ASSERT_OK_AND_ASSIGN(auto healed, Session::Create(&engine()));
  ASSERT_OK_AND_ASSIGN(const TierReport after, healed->Prepare(plan, {}));
  EXPECT_EQ(after.tier, Tier::kSplice);
}

TEST_P(SessionTest, APlanThatDoesNotFitIsRefusedBeforeAnythingIsDecoded) {
  // The engine rounds a context up to 256 cells; the plan is longer than that.
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan(std::string(600, 'b')));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&engine(), 256));
  const auto report = session->Prepare(plan, {});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(report.status().message(), HasSubstr("--ctx"));
  EXPECT_TRUE(session->tokens().empty());
}

TEST_P(SessionTest, ASavedStateIsTheSameSession) {
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan());
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(&engine()));
  const ScopedTempDir dir;
  const std::string path = dir.File("state.nxb");
  EXPECT_EQ(session->SaveState(FileSystem::Default(), path).code(),
            StatusCode::kNotFound);
  ASSERT_OK(session->Prepare(plan, {.tier = Tier::kPrefill}));
  ASSERT_OK(session->SaveState(FileSystem::Default(), path));
  const llm::Token next = 5;
  ASSERT_OK(session->Append({&next, 1}, llm::Logits::kLast));
  const std::vector<float> expected = Copy(session->logits());
  ASSERT_OK(tiny_->Restart());
  ASSERT_OK_AND_ASSIGN(auto restored, Session::LoadState(&engine(), path));
  EXPECT_EQ(restored->exact_count(), plan.TokenCount());
  ASSERT_OK(restored->Append({&next, 1}, llm::Logits::kLast));
  EXPECT_EQ(Copy(restored->logits()), expected);
  // One token is decoded again for its logits.
  ASSERT_OK(restored->TruncateTo(plan.TokenCount()));
  ASSERT_OK_AND_ASSIGN(const TierReport report, restored->Prepare(plan, {}));
  EXPECT_EQ(report.prefilled_tokens, 1);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, SessionTest,
    ::testing::Values(Setting{llm::testing::TinyArch::kLlama, false},
                      Setting{llm::testing::TinyArch::kLlama, true},
                      Setting{llm::testing::TinyArch::kQwen2, false},
                      Setting{llm::testing::TinyArch::kQwen2, true}));

}  // namespace
}  // namespace nexus::engine
