#include "nexus/eval/argument_summary.h"

#include "gmock/gmock.h"

#include "nexus/base/test_util.h"
#include "nexus/eval/argument_report.h"

namespace nexus::eval {
namespace {

using ::testing::HasSubstr;

// Ten queries of one tool with a required enum and an optional number.
class ArgumentSummaryTest : public ::testing::Test {
 protected:
  ArgumentSummaryTest() {
    schema::ToolSchema tool;
    tool.name = "t";
    tool.parameters = Json::parse(
        R"({"type": "object", "required": ["unit"], "properties": {
            "unit": {"enum": ["c", "f"]}, "days": {"type": "integer"}}})");
    tools_ = {tool};
    for (int i = 0; i < 10; ++i) {
      ArgumentTask& task = tasks_.emplace_back();
      task.query.id = std::to_string(i);
      task.query.set = "s";
      task.query.part = i < 4 ? "first" : "second";
      task.query.calls.push_back(
          {.tool = "t",
           .arguments = Json::parse(R"({"unit": ["c"], "days": [""]})")});
      task.classes = ClassifyArguments(task.accepted(), tool.parameters);
    }
  }

  // The first `right` exact, the next with an invented number, the rest noise.
  ArgumentRun Run(ArgumentForm form, int right) const {
    ArgumentRun run;
    run.form = form;
    for (int i = 0; i < 10; ++i) {
      ArgumentTrial& trial = run.trials.emplace_back();
      trial.prompt_tokens = 100 + i;
      trial.ttft_ms = i;
      trial.tier = "prefill";
      trial.schema_valid = true;
      if (i < right) {
        trial.arguments = {{"unit", "C"}};
      } else if (i == right) {
        trial.arguments = {{"unit", "c"}, {"days", 3}};
      } else {
        trial.arguments = nullptr;
        trial.schema_valid = false;
        trial.refused = true;
        trial.invalid_reason = "the prompt has too many tokens";
      }
    }
    return run;
  }

  std::vector<schema::ToolSchema> tools_;
  std::vector<ArgumentTask> tasks_;
};

TEST_F(ArgumentSummaryTest, CountsWhatTheTrialsAre) {
  const ArgumentSummary summary =
      SummarizeRun(tools_, tasks_, Run(ArgumentForm::kIr, 6));
  EXPECT_EQ(summary.n, 10);
  EXPECT_EQ(summary.exact, 6);
  EXPECT_EQ(summary.json_valid, 7);
  EXPECT_EQ(summary.schema_valid, 7);
  EXPECT_EQ(summary.refused, 3);
  EXPECT_EQ(summary.refusals.size(), 1U);
  EXPECT_EQ(summary.invented_optional, 1);
  EXPECT_DOUBLE_EQ(summary.prompt_tokens_mean, 104.5);
  EXPECT_DOUBLE_EQ(summary.ttft_ms.p50, 3);
  EXPECT_LT(summary.exact_ci95.low, 0.6);
  EXPECT_GT(summary.exact_ci95.high, 0.6);
  // Enum, optional, two parts.
  ASSERT_EQ(summary.groups.size(), 4U);
  EXPECT_EQ(summary.groups[0].name, "enum");
  EXPECT_EQ(summary.groups[0].n, 10);
  EXPECT_EQ(summary.groups[2].name, "s first");
  EXPECT_EQ(summary.groups[2].n, 4);
  EXPECT_EQ(summary.groups[2].exact, 4);
  EXPECT_EQ(summary.groups[3].exact, 2);
}

TEST_F(ArgumentSummaryTest, PairsAreOfTheSameQueries) {
  const ArgumentPair pair =
      CompareRuns(tools_, tasks_, Run(ArgumentForm::kSchemaText, 8),
                  Run(ArgumentForm::kIr, 3));
  EXPECT_EQ(pair.only_first, 5);
  EXPECT_EQ(pair.only_second, 0);
  EXPECT_EQ(pair.same_call, 4);  // three right ones and one refused by both
  EXPECT_DOUBLE_EQ(pair.difference, -0.5);
  EXPECT_NEAR(pair.mcnemar_p, 2.0 / 32, 1e-12);
  EXPECT_LT(pair.ci95.low, -0.5);
  EXPECT_GT(pair.ci95.high, -0.5);
}

TEST_F(ArgumentSummaryTest, JsonHasTheFixedFields) {
  const Json json = ArgumentSummaryJson(
      SummarizeRun(tools_, tasks_, Run(ArgumentForm::kSchema, 6)));
  EXPECT_EQ(json["n"], 10);
  EXPECT_EQ(json["json_valid"], 0.7);
  EXPECT_EQ(json["exact"], 0.6);
  EXPECT_EQ(json["prompt_tokens_mean"], 104.5);
  EXPECT_EQ(json["ttft_ms_p50"], 3.0);
  EXPECT_EQ(json["invented_optional"], 1);
}

TEST_F(ArgumentSummaryTest, FailuresSayWhy) {
  const ArgumentRun run = Run(ArgumentForm::kIr, 8);
  const auto all = ListFailures(tools_, tasks_, run, 10);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].query_id, "8");
  EXPECT_THAT(all[0].why, ::testing::ElementsAre(HasSubstr("days")));
  EXPECT_THAT(all[1].why, ::testing::Contains(HasSubstr("too many tokens")));
  EXPECT_EQ(ListFailures(tools_, tasks_, run, 1).size(), 1U);
  EXPECT_TRUE(ListFailures(tools_, tasks_, run, 0).empty());
}

TEST_F(ArgumentSummaryTest, TablesHaveAColumnAForm) {
  const std::vector<ArgumentSummary> summaries = {
      SummarizeRun(tools_, tasks_, Run(ArgumentForm::kIr, 6)),
      SummarizeRun(tools_, tasks_, Run(ArgumentForm::kSchemaText, 8))};
  for (const TableRows& rows :
       {ArgumentFormRows(summaries), ArgumentGroupRows(summaries)}) {
    for (const auto& row : rows) EXPECT_EQ(row.size(), rows.front().size());
  }
  const std::string text = MarkdownTable(ArgumentGroupRows(summaries));
  EXPECT_THAT(text, HasSubstr("| enum"));
  EXPECT_THAT(text, HasSubstr("80.0 ["));
}

TEST(ArgumentTrialTest, ComesBackAndNamesWhatIsWrong) {
  ArgumentTrial trial;
  trial.key = "k";
  trial.arguments = {{"a", Json::array({1})}};
  trial.schema_valid = true;
  trial.ttft_ms = 2.5;
  trial.list_choice = 3;
  const Json json = TrialToJson(trial);
  ASSERT_OK_AND_ASSIGN(const ArgumentTrial back, TrialFromJson(json, "f:2"));
  EXPECT_EQ(TrialToJson(back), json);

  for (const auto& [field, value] : json.items()) {
    Json broken = json;
    broken.erase(field);
    const auto bad = TrialFromJson(broken, "f:2");
    ASSERT_EQ(bad.status().code(), StatusCode::kCorruption) << field;
    EXPECT_THAT(bad.status().message(), HasSubstr("f:2: '" + field));
  }
  EXPECT_FALSE(TrialFromJson(Json(1), "f").ok());
}

}  // namespace
}  // namespace nexus::eval
