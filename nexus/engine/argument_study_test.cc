#include "nexus/engine/argument_study.h"

#include "gmock/gmock.h"

#include "nexus/engine/testing/tiny_engine.h"

namespace nexus::engine {
namespace {

using eval::ArgumentForm;
using eval::ArgumentRun;
using eval::ArgumentTask;
using eval::ArgumentTrial;
using ::testing::HasSubstr;
using testing::SampleTool;
using testing::TinyEngine;

const std::vector<ArgumentForm> kAll(eval::kArgumentForms.begin(),
                                     eval::kArgumentForms.end());

// A random-weight model: what it writes is noise, how it is asked isn't.
class ArgumentStudyTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto tiny = TinyEngine::Create({.context_tokens = 2048});
    ASSERT_TRUE(tiny.ok()) << tiny.status();
    tiny_ = tiny->release();
  }
  static void TearDownTestSuite() {
    delete tiny_;
    tiny_ = nullptr;
  }

  ArgumentStudyTest() : tools_({SampleTool(1), SampleTool(2)}) {
    for (int i = 0; i < 3; ++i) {
      ArgumentTask& task = tasks_.emplace_back();
      task.query.text = "Do it for number " + std::to_string(i) + ".";
      task.tool = i % 2;
    }
  }

  const Engine& engine() const { return tiny_->engine(); }
  Result<ArgumentLog> OpenLog() const {
    return OpenArgumentLog(FileSystem::Default(), dir_.File("trials.jsonl"),
                           engine());
  }
  // Calls that were generated, not read from the log.
  Result<int> Study(ArgumentLog* log, std::vector<ArgumentRun>* runs) {
    NEXUS_ASSIGN_OR_RETURN(const auto runner,
                           ArgumentRunner::Create(&engine(), log, 48));
    int generated = 0;
    ArgumentStudyOptions options;
    options.forms = kAll;
    options.progress = [&](const ArgumentStudyProgress& progress) {
      generated = progress.generated;
    };
    NEXUS_ASSIGN_OR_RETURN(*runs,
                           RunArgumentStudy(*runner, tools_, tasks_, options));
    return generated;
  }

  static TinyEngine* tiny_;
  ScopedTempDir dir_;
  std::vector<schema::ToolSchema> tools_;
  std::vector<ArgumentTask> tasks_;
};

TinyEngine* ArgumentStudyTest::tiny_ = nullptr;

TEST_F(ArgumentStudyTest, EveryFormGivesAJsonCallAndItsCost) {
  ASSERT_OK_AND_ASSIGN(ArgumentLog log, OpenLog());
  std::vector<ArgumentRun> runs;
  ASSERT_OK_AND_ASSIGN(const int generated, Study(&log, &runs));
  EXPECT_EQ(generated, 9);
  ASSERT_EQ(runs.size(), 3U);
  for (const ArgumentRun& run : runs) {
    ASSERT_EQ(run.trials.size(), tasks_.size());
    for (const ArgumentTrial& trial : run.trials) {
      EXPECT_TRUE(trial.arguments.is_object());
      EXPECT_TRUE(trial.schema_valid) << trial.invalid_reason;
      EXPECT_GT(trial.ttft_ms, 0);
      EXPECT_GT(trial.prompt_tokens, trial.tool_tokens);
    }
  }
  EXPECT_LT(runs[0].trials[0].prompt_tokens, runs[1].trials[0].prompt_tokens);
  EXPECT_EQ(runs[1].trials[0].prompt_tokens, runs[2].trials[0].prompt_tokens);
}

TEST_F(ArgumentStudyTest, WithoutABlockTheTiersWriteWhatTheTextDoes) {
  ASSERT_OK_AND_ASSIGN(ArgumentLog log, OpenLog());
  std::vector<ArgumentRun> runs;
  ASSERT_OK(Study(&log, &runs).status());
  for (size_t i = 0; i < tasks_.size(); ++i) {
    EXPECT_EQ(runs[1].trials[i].arguments, runs[2].trials[i].arguments);
  }
}

TEST_F(ArgumentStudyTest, GoesOnFromItsLog) {
  std::vector<ArgumentRun> first;
  {
    ASSERT_OK_AND_ASSIGN(ArgumentLog log, OpenLog());
    ASSERT_OK(Study(&log, &first).status());
  }
  ASSERT_OK_AND_ASSIGN(ArgumentLog log, OpenLog());
  std::vector<ArgumentRun> again;
  ASSERT_OK_AND_ASSIGN(int generated, Study(&log, &again));
  EXPECT_EQ(generated, 0);
  EXPECT_EQ(again[0].trials[2].arguments, first[0].trials[2].arguments);

  // Only what a changed schema touches is generated anew.
  tools_[1].description += " Changed.";
  ASSERT_OK_AND_ASSIGN(generated, Study(&log, &again));
  EXPECT_GT(generated, 0);
  EXPECT_LE(generated, 3);
}

TEST_F(ArgumentStudyTest, CancellingKeepsWhatWasGenerated) {
  ASSERT_OK_AND_ASSIGN(ArgumentLog log, OpenLog());
  ASSERT_OK_AND_ASSIGN(const auto runner,
                       ArgumentRunner::Create(&engine(), &log, 48));
  std::atomic<bool> cancel = false;
  ArgumentStudyOptions options;
  options.forms = {ArgumentForm::kIr};
  options.cancel = &cancel;
  options.progress = [&](const ArgumentStudyProgress& progress) {
    cancel = progress.done == 2;
  };
  const auto runs = RunArgumentStudy(*runner, tools_, tasks_, options);
  EXPECT_EQ(runs.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(log.trials().size(), 2U);
}

TEST_F(ArgumentStudyTest, AQuestionThatDoesntFitIsARefusal) {
  ASSERT_OK_AND_ASSIGN(ArgumentLog log, OpenLog());
  ASSERT_OK_AND_ASSIGN(const auto runner,
                       ArgumentRunner::Create(&engine(), &log, 48));
  std::string question;
  for (int i = 0; i < 3000; ++i) question += "word ";
  for (int round = 0; round < 2; ++round) {
    ASSERT_OK_AND_ASSIGN(
        const ArgumentTrial trial,
        runner->Run(tools_[0], question, ArgumentForm::kSchemaText));
    EXPECT_TRUE(trial.refused);
    EXPECT_TRUE(trial.arguments.is_null());
    EXPECT_THAT(trial.invalid_reason, HasSubstr("tokens"));
    EXPECT_EQ(runner->was_known(), round == 1);
  }
  // And the next one is asked as ever.
  ASSERT_OK_AND_ASSIGN(const ArgumentTrial trial,
                       runner->Run(tools_[0], "Do it.", ArgumentForm::kIr));
  EXPECT_FALSE(trial.refused);
}

TEST_F(ArgumentStudyTest, AListLetsTheModelChoose) {
  ASSERT_OK_AND_ASSIGN(ArgumentLog log, OpenLog());
  ASSERT_OK_AND_ASSIGN(const auto runner,
                       ArgumentRunner::Create(&engine(), &log, 48));
  ASSERT_OK_AND_ASSIGN(const ArgumentTrial trial,
                       runner->RunList(tools_, "Do it."));
  EXPECT_FALSE(trial.refused) << trial.invalid_reason;
  EXPECT_EQ(trial.list_tools, 2);
  EXPECT_THAT(trial.list_choice, ::testing::AnyOf(0, 1));
  EXPECT_TRUE(trial.arguments.is_object());
  ASSERT_OK_AND_ASSIGN(const int tokens,
                       runner->CountListTokens(tools_, "Do it."));
  EXPECT_EQ(trial.prompt_tokens, tokens);
}

TEST_F(ArgumentStudyTest, ALogOfAnotherContextIsRefused) {
  {
    ASSERT_OK_AND_ASSIGN(ArgumentLog log, OpenLog());
    std::vector<ArgumentRun> runs;
    ASSERT_OK(Study(&log, &runs).status());
  }
  Json other = ArgumentStudyIdentity(engine());
  other["context_tokens"] = 1;
  EXPECT_EQ(JsonLog::Open(FileSystem::Default(), dir_.File("trials.jsonl"),
                          other, "evaluation")
                .status()
                .code(),
            StatusCode::kIncompatible);
}

}  // namespace
}  // namespace nexus::engine
