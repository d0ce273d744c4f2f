#include "nexus/engine/e2e_study.h"

#include "gmock/gmock.h"

#include "nexus/engine/e2e_summary.h"
#include "nexus/engine/testing/tiny_engine.h"

namespace nexus::engine {
namespace {

using eval::ArgumentForm;
using testing::TinyEngine;

// No argument: the only call of such a tool is {}, even a noisy model's.
schema::ToolSchema Bare(const std::string& name, const std::string& text) {
  schema::ToolSchema tool;
  tool.name = name;
  tool.description = text;
  tool.parameters = Json::parse(R"({"type": "object", "properties": {}})");
  return tool;
}

class E2eStudyTest : public ::testing::Test {
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

  E2eStudyTest()
      : tools_({Bare("get_weather", "rain sun wind"),
                Bare("send_mail", "letter recipient post"),
                Bare("get_song", "music tune")}) {}

  // Right, right, routed to the wrong tool, and nothing to go by.
  static eval::LabelledQuery Query(const std::string& text,
                                   const std::string& tool) {
    eval::LabelledQuery query;
    query.text = text;
    query.gold = {tool};
    query.calls.push_back({.tool = tool, .arguments = Json::object()});
    return query;
  }
  std::vector<eval::LabelledQuery> Queries() const {
    return {Query("rain wind", "get_weather"), Query("music tune", "get_song"),
            Query("letter recipient post", "get_song"),
            Query("zebra", "send_mail")};
  }

  Result<E2eStudy> Run(E2eOptions options) {
    const Engine& engine = tiny_->engine();
    NEXUS_ASSIGN_OR_RETURN(ArgumentLog log,
                           OpenArgumentLog(FileSystem::Default(), "", engine));
    NEXUS_ASSIGN_OR_RETURN(const auto runner,
                           ArgumentRunner::Create(&engine, &log, 32));
    NEXUS_ASSIGN_OR_RETURN(auto tasks,
                           eval::ResolveArgumentTasks(tools_, Queries()));
    options.forms = {ArgumentForm::kIr, ArgumentForm::kSchemaText};
    options.route.latency_queries = 0;
    options.route.seeds = 1;
    return RunE2eStudy(engine, *runner, tools_, std::move(tasks.tasks), {},
                       options);
  }

  static TinyEngine* tiny_;
  std::vector<schema::ToolSchema> tools_;
};

TinyEngine* E2eStudyTest::tiny_ = nullptr;

TEST_F(E2eStudyTest, ACallIsRightWhenToolAndArgumentsAre) {
  ASSERT_OK_AND_ASSIGN(const E2eStudy study, Run({.baseline_queries = 2}));
  ASSERT_EQ(study.trials.size(), 4U);
  EXPECT_TRUE(study.trials[0].tool_right);
  EXPECT_FALSE(study.trials[2].tool_right);
  EXPECT_EQ(study.trials[3].chosen, -1);
  EXPECT_TRUE(study.trials[3].calls.empty());

  const E2eSummary summary = SummarizeE2e(study);
  EXPECT_EQ(summary.n, 4);
  ASSERT_EQ(summary.arms.size(), 3U);
  for (size_t form = 0; form < 2; ++form) {
    EXPECT_DOUBLE_EQ(summary.arms[form].tool.value, 0.5);
    EXPECT_DOUBLE_EQ(summary.arms[form].arguments.value, 1);
    EXPECT_EQ(summary.arms[form].arguments.n, 2);
    EXPECT_DOUBLE_EQ(summary.arms[form].both.value, 0.5);
  }
  EXPECT_DOUBLE_EQ(summary.abstain_share, 0.25);
}

TEST_F(E2eStudyTest, TheBaselineHasEverySchemaInThePrompt) {
  ASSERT_OK_AND_ASSIGN(const E2eStudy study, Run({.baseline_queries = 2}));
  int decoded = 0;
  for (const E2eTrial& trial : study.trials) {
    EXPECT_TRUE(trial.list_fits);
    if (!trial.list.has_value()) continue;
    ++decoded;
    EXPECT_EQ(trial.list->trial.list_tools, 3);
    // Counted without decoding, and what was decoded.
    EXPECT_EQ(trial.list->trial.prompt_tokens, trial.list_tokens);
    EXPECT_EQ(trial.list->exact, trial.list->tool_right);
  }
  EXPECT_EQ(decoded, 2);
  EXPECT_GT(study.overflow_tools, 3);

  const Json json = E2eJson(study, SummarizeE2e(study));
  EXPECT_EQ(json["n"], 4);
  EXPECT_EQ(json["all_schemas"]["both"]["n"], 2);
  EXPECT_EQ(json["pairs"].size(), 2U);
  EXPECT_EQ(json["routed"]["ir"]["both"]["value"], 0.5);
}

TEST_F(E2eStudyTest, WithoutABaselineItsTokensAreStillCounted) {
  ASSERT_OK_AND_ASSIGN(const E2eStudy study, Run({}));
  const E2eSummary summary = SummarizeE2e(study);
  EXPECT_EQ(summary.arms.size(), 2U);
  EXPECT_TRUE(summary.pairs.empty());
  EXPECT_GT(summary.list_tokens_mean, 0);
  EXPECT_DOUBLE_EQ(summary.list_fits_share, 1);
}

TEST_F(E2eStudyTest, APoolIsWhatTheListHolds) {
  E2eOptions options;
  options.route.pool = eval::PoolKind::kRandom;
  options.route.sizes = {2};
  options.baseline_queries = 10;
  ASSERT_OK_AND_ASSIGN(const E2eStudy study, Run(options));
  for (const E2eTrial& trial : study.trials) {
    EXPECT_EQ(trial.pool_tools, 2);
    ASSERT_TRUE(trial.list.has_value());
    EXPECT_EQ(trial.list->trial.list_tools, 2);
  }
}

}  // namespace
}  // namespace nexus::engine
