#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/engine/compile_tools.h"
#include "nexus/engine/session.h"
#include "nexus/engine/testing/tiny_engine.h"

namespace nexus::engine {
namespace {

using testing::SampleTool;
using testing::TinyEngine;

class SessionLearnTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK_AND_ASSIGN(tiny_, TinyEngine::Create({})); }

  Engine& engine() { return tiny_->engine(); }

  // Conversations whose histories differ from the first user turn on.
  Result<PromptPlan> Plan(int conversation) {
    const std::string number = std::to_string(conversation);
    const std::vector<llm::ChatMessage> messages = {
        {.role = "user", .content = number + " boats are waiting outside."},
        {.role = "assistant", .content = "Berth " + number + " is free."},
        {.role = "user", .content = "Book it, please."}};
    return engine().planner().PlanCall(messages, {&tool_, 1},
                                       ArgumentMode::kSchema, tool_.name);
  }

  Result<std::unique_ptr<Session>> NewSession() {
    return Session::Create(&engine());
  }

  // One use of the tool in a session of its own, learned from where it can be.
  Result<compile::LearnReport> Use(int conversation, Tier tier = Tier::kAuto) {
    NEXUS_ASSIGN_OR_RETURN(const PromptPlan plan, Plan(conversation));
    NEXUS_ASSIGN_OR_RETURN(auto session, NewSession());
    NEXUS_RETURN_IF_ERROR(session->Prepare(plan, {.tier = tier}).status());
    return session->Learn(plan, tool_);
  }

  std::unique_ptr<TinyEngine> tiny_;
  const schema::ToolSchema tool_ = SampleTool();
};

TEST_F(SessionLearnTest, TheFirstUseIsPrefilledAndTheSecondSpliced) {
  ASSERT_OK_AND_ASSIGN(const compile::LearnReport learned, Use(1));
  EXPECT_EQ(learned.samples, 1);
  EXPECT_EQ(learned.generation, 0);
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan(2));
  ASSERT_OK_AND_ASSIGN(auto session, NewSession());
  ASSERT_OK_AND_ASSIGN(const TierReport report, session->Prepare(plan, {}));
  EXPECT_EQ(report.tier, Tier::kSplice)
      << ::testing::PrintToString(report.reasons);
  EXPECT_EQ(report.spliced_tokens, static_cast<int>(plan.block.size()));
  ASSERT_OK_AND_ASSIGN(const auto block, engine().FindSplice(plan.block));
  EXPECT_EQ(block->metadata().recipe.rfind("traffic-", 0), 0U);
  EXPECT_EQ(block->metadata().tool_name, schema::ToolId(tool_));
}

TEST_F(SessionLearnTest, OnlyTextThatWasJustDecodedIsASample) {
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan(1));
  ASSERT_OK_AND_ASSIGN(auto session, NewSession());
  ASSERT_OK(session->Prepare(plan, {}));
  ASSERT_OK_AND_ASSIGN(compile::LearnReport report,
                       session->Learn(plan, tool_));
  EXPECT_EQ(report.samples, 1);
  // The same cells a second time.
  ASSERT_OK_AND_ASSIGN(report, session->Learn(plan, tool_));
  EXPECT_EQ(report.samples, 0);
  // The session's own cells again.
  ASSERT_OK_AND_ASSIGN(TierReport tier, session->Prepare(plan, {}));
  EXPECT_EQ(tier.tier, Tier::kExactPrefix);
  ASSERT_OK_AND_ASSIGN(report, session->Learn(plan, tool_));
  EXPECT_EQ(report.samples, 0);
  // Cells that came from the block.
  ASSERT_OK_AND_ASSIGN(report, Use(2, Tier::kSplice));
  EXPECT_EQ(report.samples, 0);
  // Text that is no longer in the context.
  ASSERT_OK_AND_ASSIGN(const PromptPlan other, Plan(3));
  ASSERT_OK(session->Prepare(other, {.tier = Tier::kPrefill}));
  ASSERT_OK(session->TruncateTo(other.history.size() + 1));
  ASSERT_OK_AND_ASSIGN(report, session->Learn(other, tool_));
  EXPECT_EQ(report.samples, 0);
}

TEST_F(SessionLearnTest, ImprovesTheCompiledBlockWhereThereIsOne) {
  ASSERT_OK(CompileTools(engine(), {&tool_, 1}, {.contexts = 2}));
  ASSERT_OK_AND_ASSIGN(const compile::LearnReport report,
                       Use(1, Tier::kPrefill));
  EXPECT_EQ(report.samples, 3);
  EXPECT_EQ(report.generation, 1);
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan(1));
  ASSERT_OK_AND_ASSIGN(const auto block, engine().FindSplice(plan.block));
  EXPECT_EQ(block->key(), engine().SpliceKey(plan.block, 2));
  EXPECT_EQ(block->sensitivity().size(), plan.block.size());
}

TEST_F(SessionLearnTest, TakesTheBlockWithTheMostSamples) {
  for (int i = 0; i < 3; ++i) ASSERT_OK(Use(i, Tier::kPrefill));
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan(1));
  ASSERT_OK(CompileTools(engine(), {&tool_, 1}, {.contexts = 2}));
  ASSERT_OK_AND_ASSIGN(auto block, engine().FindSplice(plan.block));
  EXPECT_EQ(block->key(), engine().TrafficKey(plan.block));
  ASSERT_OK(CompileTools(engine(), {&tool_, 1}, {.contexts = 3}));
  ASSERT_OK_AND_ASSIGN(block, engine().FindSplice(plan.block));
  EXPECT_EQ(block->key(), engine().SpliceKey(plan.block, 3));
}

// What others learn meanwhile must not change a session's answers.
TEST_F(SessionLearnTest, ASessionKeepsTheBlockThatItHasSpliced) {
  ASSERT_OK(Use(1));
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan(2));
  ASSERT_OK_AND_ASSIGN(auto session, NewSession());
  const PrepareOptions splice = {.tier = Tier::kSplice};
  ASSERT_OK_AND_ASSIGN(const TierReport before, session->Prepare(plan, splice));
  const std::vector<float> logits(session->logits().begin(),
                                  session->logits().end());
  ASSERT_OK_AND_ASSIGN(const compile::LearnReport other,
                       Use(3, Tier::kPrefill));
  EXPECT_EQ(other.samples, 2);
  ASSERT_OK(session->TruncateTo(0));
  ASSERT_OK_AND_ASSIGN(const TierReport after, session->Prepare(plan, splice));
  EXPECT_EQ(after.block_file, before.block_file);
  EXPECT_TRUE(
      std::equal(logits.begin(), logits.end(), session->logits().begin()));
  session->ForgetBlocks();
  ASSERT_OK(session->TruncateTo(0));
  ASSERT_OK_AND_ASSIGN(const TierReport anew, session->Prepare(plan, splice));
  EXPECT_NE(anew.block_file, before.block_file);
}

// Eviction drops the file under a session that splices from it.
TEST_F(SessionLearnTest, SplicesOnFromABlockThatWasRemoved) {
  ASSERT_OK(Use(1));
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan(2));
  ASSERT_OK_AND_ASSIGN(auto session, NewSession());
  ASSERT_OK(session->Prepare(plan, {.tier = Tier::kSplice}));
  ASSERT_OK(engine().store()->Remove(engine().TrafficKey(plan.block)));
  ASSERT_OK(session->TruncateTo(0));
  ASSERT_OK_AND_ASSIGN(const TierReport report,
                       session->Prepare(plan, {.tier = Tier::kSplice}));
  EXPECT_EQ(report.tier, Tier::kSplice);
}

TEST_F(SessionLearnTest, AStoreThatCannotBeWrittenCostsTheSampleAndNoMore) {
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan(1));
  ASSERT_OK_AND_ASSIGN(auto session, NewSession());
  ASSERT_OK(session->Prepare(plan, {}));
  const std::vector<llm::Token> tokens(session->tokens().begin(),
                                       session->tokens().end());
  // No folder any more, and none can be made: even root can't write there.
  std::filesystem::remove_all(tiny_->store_dir());
  std::ofstream(tiny_->store_dir()) << "a file";
  EXPECT_FALSE(session->Learn(plan, tool_).ok());
  EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(),
                         session->tokens().begin(), session->tokens().end()));
  ASSERT_OK_AND_ASSIGN(const TierReport report, session->Prepare(plan, {}));
  EXPECT_EQ(report.tier, Tier::kExactPrefix);
}

// A disk that takes no more bytes, as far as this process can have one.
class FullDisk {
 public:
  explicit FullDisk(rlim_t bytes_a_file)
      : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit_), 0);
    rlimit limit = old_limit_;
    limit.rlim_cur = bytes_a_file;
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FullDisk() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &old_limit_), 0);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_limit_{};
  void (*old_handler_)(int);
};

TEST_F(SessionLearnTest, AFullDiskCostsTheSampleAndNoMore) {
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan(1));
  ASSERT_OK_AND_ASSIGN(auto session, NewSession());
  ASSERT_OK(session->Prepare(plan, {}));
  Status learned;
  Status kept;
  {
    const FullDisk disk(4096);
    learned = session->Learn(plan, tool_).status();
    kept = session->StoreVariant(plan, tool_);
  }
  EXPECT_EQ(learned.code(), StatusCode::kIoError) << learned;
  EXPECT_EQ(kept.code(), StatusCode::kIoError) << kept;
  EXPECT_THAT(learned.message(), ::testing::HasSubstr(tiny_->store_dir()));
  EXPECT_EQ(engine().FindSplice(plan.block).status().code(),
            StatusCode::kNotFound);
  for (const auto& entry :
       std::filesystem::directory_iterator(tiny_->store_dir())) {
    EXPECT_NE(entry.path().extension(), ".nxb") << entry.path();
  }
  // And with room again it goes on.
  ASSERT_OK(session->StoreVariant(plan, tool_));
  ASSERT_OK_AND_ASSIGN(const compile::LearnReport report, Use(2));
  EXPECT_EQ(report.samples, 1);
}

TEST_F(SessionLearnTest, WithoutAStoreTheTextIsDecodedAndNothingLearned) {
  std::filesystem::remove_all(tiny_->store_dir());
  std::ofstream(tiny_->store_dir()) << "a file";
  ASSERT_OK(tiny_->Restart());
  EXPECT_FALSE(engine().store_status().ok());
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan(1));
  ASSERT_OK_AND_ASSIGN(auto session, NewSession());
  ASSERT_OK_AND_ASSIGN(const TierReport report, session->Prepare(plan, {}));
  EXPECT_EQ(report.tier, Tier::kPrefill);
  EXPECT_THAT(report.reasons,
              ::testing::Contains(::testing::HasSubstr(tiny_->store_dir())));
  ASSERT_OK_AND_ASSIGN(const compile::LearnReport learned,
                       session->Learn(plan, tool_));
  EXPECT_EQ(learned.samples, 0);
  // A list of tools as well.
  ASSERT_OK_AND_ASSIGN(
      const PromptPlan list,
      engine().planner().PlanList(
          testing::SampleConversation("Book it, please."), {&tool_, 1}, ""));
  ASSERT_OK_AND_ASSIGN(const TierReport of_list, session->Prepare(list, {}));
  EXPECT_EQ(of_list.tier, Tier::kPrefill);
}

TEST_F(SessionLearnTest, LearnsNothingWhenSwitchedOff) {
  ASSERT_OK_AND_ASSIGN(const auto engine,
                       Engine::Create({.model_path = tiny_->model_path(),
                                       .store_dir = tiny_->store_dir(),
                                       .threads = 1,
                                       .flash_attention = false,
                                       .learn = false}));
  ASSERT_OK_AND_ASSIGN(const PromptPlan plan, Plan(1));
  ASSERT_OK_AND_ASSIGN(auto session, Session::Create(engine.get()));
  ASSERT_OK(session->Prepare(plan, {}));
  ASSERT_OK_AND_ASSIGN(const compile::LearnReport report,
                       session->Learn(plan, tool_));
  EXPECT_EQ(report.samples, 0);
  EXPECT_EQ(engine->FindSplice(plan.block).status().code(),
            StatusCode::kNotFound);
}

}  // namespace
}  // namespace nexus::engine
